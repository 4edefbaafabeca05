#import weight/q4_0
#import piece/group
