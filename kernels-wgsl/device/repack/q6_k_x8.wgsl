// Q6_K: 128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales, f16 super scale.
#import device/repack/interleave

const BLOCK: u32 = 210u;
const FIELDS = array(vec2(0u, 128u), vec2(128u, 64u), vec2(192u, 16u), vec2(208u, 2u));
