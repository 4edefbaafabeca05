// Q8_0: 32 signed bytes, f16 scale.
#import device/repack/interleave

const BLOCK: u32 = 34u;
const FIELDS = array(vec2(2u, 32u), vec2(0u, 2u));
