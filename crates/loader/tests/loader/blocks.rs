//! Blocks: decoding against PyPI `gguf`, encoding against error bounds.

use proptest::prelude::*;
use wgoose_graph::Format;
use wgoose_loader::blocks::{SourceFormat, decode, deinterleave, encode, from_k_major, interleave, to_k_major};

const INTERLEAVED: [Format; 3] = [Format::Q8_0_X8, Format::Q4_0_X8, Format::Q6_K_X8];
const QUANTISED: [Format; 5] = [Format::Q8_0, Format::Q4_0, Format::Q4_K, Format::Q5_K, Format::Q6_K];

fn encoded(format: Format, weights: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0xAA; format.bytes(1, weights.len()).unwrap()];
    encode(format, weights, &mut bytes);
    bytes
}

fn round_trip(format: Format, weights: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; weights.len()];
    decode(format, &encoded(format, weights), &mut out);
    out
}

/// Sums of four uniforms: near enough to normal, deviation 1.
fn normals(count: usize) -> Vec<f32> {
    let mut state = 1_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(|_| (uniform() + uniform() + uniform() + uniform()) * 3.0_f32.sqrt()).collect()
}

fn rms(x: impl Iterator<Item = f32>) -> f64 {
    let (sum, n) = x.fold((0.0, 0), |(sum, n), x| (sum + f64::from(x) * f64::from(x), n + 1));
    (sum / f64::from(n)).sqrt()
}

#[test]
fn decoding_equals_the_oracle_bit_for_bit() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../fixtures/blocks_golden.json")).unwrap();
    let unhex = |v: &serde_json::Value| -> Vec<u8> {
        let hex = v.as_str().unwrap();
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    };
    let records = golden.as_array().unwrap();
    let sources = SourceFormat::ALL;
    assert_eq!(records.len(), Format::in_files().count() - 1 + sources.len(), "every format but F32");
    for record in records {
        let name = record["format"].as_str().unwrap();
        let source = sources.into_iter().find(|format| format.name() == name);
        let expected: Vec<u32> =
            unhex(&record["f32_le"]).as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        let mut out = vec![f32::NAN; expected.len()];
        let bytes = unhex(&record["bytes"]);
        match source {
            Some(source) => source.decode(&bytes, &mut out),
            None => decode(name.parse().unwrap(), &bytes, &mut out),
        }
        let got: Vec<u32> = out.iter().map(|x| x.to_bits()).collect();
        assert_eq!(got, expected, "{name}");
    }
}

/// Normal weights: rms error over rms weight. The bounds are what the encoders reach, plus 2 %: a worse fit fails.
#[test]
fn normal_weights_lose_little() {
    let weights = normals(256 * 64);
    for (format, bound) in [
        (Format::F32, 0.0),
        (Format::F16, 2.2e-4),
        (Format::BF16, 1.75e-3),
        (Format::Q8_0, 0.0052),
        (Format::Q4_0, 0.0827),
        (Format::Q4_K, 0.0720),
        (Format::Q5_K, 0.0358),
        (Format::Q6_K, 0.0178),
    ] {
        let back = round_trip(format, &weights);
        let error = rms(weights.iter().zip(&back).map(|(a, b)| a - b)) / rms(weights.iter().copied());
        assert!(error <= bound, "{format}: {error} > {bound}");
    }
}

/// The worst rms error of plain rounding on a group of weights that share a scale: half a step (a whole step if the
/// codes are lopsided), plus the rounding of the shared scales. `a` is the block's largest magnitude and `range` the
/// distance between its extremes, zero included.
fn bound(format: Format, a: f32, range: f32) -> (usize, f32) {
    let f16 = 1.0 / 2048.0;
    match format {
        Format::F32 => (1, 0.0),
        Format::F16 => (1, a * f16 + 3e-8),
        Format::BF16 => (1, a / 256.0),
        Format::Q8_0 => (1, a * (1.0 / 254.0 + f16) + 4e-6),
        Format::Q4_0 => (1, a * (1.0 / 8.0 + f16) + 3e-7),
        Format::Q4_K => (32, range * (1.0 / 30.0 + 2.0 / 126.0 + 2.0 * f16) + 3e-5),
        Format::Q5_K => (32, range * (1.0 / 62.0 + 2.0 / 126.0 + 2.0 * f16) + 6e-5),
        Format::Q6_K => (16, a * (1.0 / 32.0 + 1.0 / 100.0 + f16) + 1.3e-4),
        repacked => bound(repacked.as_in_file(), a, range),
    }
}

/// Blocks whose groups differ widely in size and offset, as trained weights do.
fn block() -> impl Strategy<Value = Vec<f32>> {
    let group = (-5_i32..5, -2.0_f32..2.0, prop::collection::vec(-1.0_f32..1.0, 16), any::<bool>());
    prop::collection::vec(group, 16).prop_map(|groups| {
        let one = |(exponent, offset, weights, flat): (i32, f32, Vec<f32>, bool)| {
            let size = 10.0_f32.powi(exponent);
            weights.into_iter().map(move |w| size * if flat { offset } else { w + offset })
        };
        groups.into_iter().flat_map(one).collect()
    })
}

/// The value at which a quantised format saturates: the scale of Q8_0 is f16, and so are the weights of the others.
fn largest(format: Format) -> f32 {
    if format == Format::Q8_0 { 127.0 * 65504.0 } else { 65504.0 }
}

proptest! {
    #[test]
    fn encoding_keeps_its_bounds(weights in block()) {
        for format in Format::in_files() {
            let back = round_trip(format, &weights);
            for (weights, back) in weights.chunks(format.block_weights()).zip(back.chunks(format.block_weights())) {
                let (lo, hi) = weights.iter().fold((0.0_f32, 0.0_f32), |(lo, hi), w| (lo.min(*w), hi.max(*w)));
                let (group, bound) = bound(format, hi.max(-lo), hi - lo);
                for (w, b) in weights.chunks(group).zip(back.chunks(group)) {
                    let error = rms(w.iter().zip(b).map(|(w, b)| w - b)) as f32;
                    prop_assert!(error <= bound, "{}: {} > {}: {:?} became {:?}", format, error, bound, w, b);
                }
            }
        }
    }

    #[test]
    fn a_block_depends_on_its_own_weights_alone(one in block(), two in block()) {
        for format in Format::in_files() {
            let together = encoded(format, &[one.clone(), two.clone()].concat());
            prop_assert_eq!(&together, &[encoded(format, &one), encoded(format, &two)].concat());
        }
    }

    #[test]
    fn weights_of_any_bits_can_be_encoded(bits in prop::collection::vec(any::<u32>(), 256)) {
        let weights: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
        for format in QUANTISED {
            prop_assert!(round_trip(format, &weights).iter().all(|w| w.abs() < 1.07 * largest(format)), "{}", format);
        }
    }

    #[test]
    fn blocks_of_any_bytes_can_be_decoded(bytes in prop::collection::vec(any::<u8>(), 210)) {
        for format in Format::in_files() {
            let mut out = vec![0.0; format.block_weights()];
            decode(format, &bytes[..format.block_bytes()], &mut out);
        }
    }

    #[test]
    fn interleaved_blocks_decode_to_equal_weights(bytes in prop::collection::vec(any::<u8>(), 210..210 * 30)) {
        for interleaved in INTERLEAVED {
            let format = interleaved.as_in_file();
            let count = bytes.len() / format.block_bytes();
            let (weights, blocks) = (count * format.block_weights(), &bytes[..count * format.block_bytes()]);
            let mut side_by_side = vec![0xAA; interleaved.bytes(1, weights).unwrap()];
            interleave(format, blocks, &mut side_by_side);
            let mut back = vec![0xAA; blocks.len()];
            deinterleave(format, &side_by_side, &mut back);
            prop_assert_eq!(&back, blocks, "{}", interleaved);

            let (mut want, mut got) = (vec![0.0; weights], vec![0.0; weights]);
            decode(format, blocks, &mut want);
            decode(interleaved, &side_by_side, &mut got);
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&got), bits(&want), "{}", interleaved);

            // What cannot be decoded bit for bit is no number; encoding is of those that can.
            let numbers: Vec<f32> = want.iter().map(|w| if w.is_finite() { *w } else { 0.0 }).collect();
            let mut again = vec![0xAA; side_by_side.len()];
            encode(interleaved, &numbers, &mut again);
            interleave(format, &encoded(format, &numbers), &mut side_by_side);
            prop_assert_eq!(again, side_by_side, "{}", interleaved);
        }
    }
}

#[test]
fn zeros_are_exact() {
    for zero in [0.0, -0.0] {
        for format in Format::in_files() {
            assert!(round_trip(format, &[zero; 256]).iter().all(|w| *w == 0.0), "{format}");
        }
    }
}

#[test]
fn unrepresentable_weights_saturate() {
    let mut weights = vec![0.0; 256];
    (weights[3], weights[40], weights[200]) = (f32::NAN, f32::INFINITY, -1e30);
    for format in QUANTISED {
        let back = round_trip(format, &weights);
        assert_eq!(back[3], 0.0, "{format}");
        for (i, limit) in [(40, largest(format)), (200, -largest(format))] {
            assert!((back[i] / limit - 1.0).abs() < 0.02, "{format}: {}", back[i]);
        }
    }
    assert!(round_trip(Format::F16, &weights)[3].is_nan());
    assert_eq!(round_trip(Format::F16, &weights)[200], f32::NEG_INFINITY);
    assert_eq!(round_trip(Format::BF16, &weights)[40], f32::INFINITY);
}

#[test]
#[should_panic(expected = "do not fill")]
fn half_a_block_is_a_bug_of_the_caller() {
    decode(Format::Q4_K, &[0; 144], &mut [0.0; 128]);
}

/// Each byte of block i, at offset j, is named (i, j); nine blocks fill one group and begin another.
#[test]
fn interleaving_puts_equal_fields_of_blocks_side_by_side() {
    for (format, fields) in [
        (Format::Q8_0, vec![2..34, 0..2]),
        (Format::Q4_0, vec![2..18, 0..2]),
        (Format::Q6_K, vec![0..128, 128..192, 192..208, 208..210]),
    ] {
        let size = format.block_bytes();
        let byte = |block: usize, at: usize| (31 * block + at) as u8;
        let blocks: Vec<u8> = (0..9 * size).map(|i| byte(i / size, i % size)).collect();
        let mut side_by_side = vec![0xAA; 16 * size];
        interleave(format, &blocks, &mut side_by_side);

        let field = |blocks: std::ops::Range<usize>, field: std::ops::Range<usize>| -> Vec<u8> {
            blocks.flat_map(|b| field.clone().map(move |at| if b < 9 { byte(b, at) } else { 0 })).collect()
        };
        let want: Vec<u8> = [0..8, 8..16]
            .into_iter()
            .flat_map(|b| fields.iter().flat_map(move |f| field(b.clone(), f.clone())).collect::<Vec<_>>())
            .collect();
        assert_eq!(side_by_side, want, "{format}");
        assert!(fields.iter().all(|f| (8 * f.len()).is_multiple_of(16)));
    }
}

#[test]
#[should_panic(expected = "do not fill")]
fn formats_that_are_not_interleaved_are_a_bug_of_the_caller() {
    interleave(Format::Q4_K, &[0; 144 * 8], &mut [0; 144 * 8]);
}

/// Every bit of a matrix has a place of its own in the K-major layout.
#[test]
fn k_major_loses_nothing() {
    for format in Format::all_k_major() {
        let in_file = format.as_in_file();
        for (rows, cols) in [(1, 256), (8, 256), (19, 512)] {
            let bytes = in_file.bytes(rows, cols).unwrap();
            let raw: Vec<u8> = (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            let mut k_major = vec![0xAA; format.bytes(rows, cols).unwrap()];
            to_k_major(in_file, cols, &raw, &mut k_major);
            let ones = |bytes: &[u8]| bytes.iter().map(|b| b.count_ones()).sum::<u32>();
            assert_eq!(ones(&k_major), ones(&raw), "{format}: {rows} x {cols}");
            let mut back = vec![0xAA; bytes];
            from_k_major(in_file, cols, &k_major, &mut back);
            assert!(back == raw, "{format}: {rows} x {cols}");
        }
    }
    // F16, two panels of two columns: the first column of all rows, then the second.
    let raw: Vec<u8> = (0..9u8).flat_map(|row| [row, 0, row + 100, 1]).collect();
    let mut k_major = vec![0; 64];
    to_k_major(Format::F16, 2, &raw, &mut k_major);
    let halves: Vec<u16> = k_major.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b)).collect();
    assert_eq!(halves[..9], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(halves[16..25], [356, 357, 358, 359, 360, 361, 362, 363, 364]);
}
