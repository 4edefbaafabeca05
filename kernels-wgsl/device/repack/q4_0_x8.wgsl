// Q4_0: 16 bytes of nibbles, f16 scale.
#import device/repack/interleave

const BLOCK: u32 = 18u;
const FIELDS = array(vec2(2u, 16u), vec2(0u, 2u));
