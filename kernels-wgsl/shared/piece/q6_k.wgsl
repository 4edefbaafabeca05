#import weight/q6_k
#import piece/group
