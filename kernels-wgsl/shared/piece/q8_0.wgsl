#import weight/q8_0
#import piece/group
