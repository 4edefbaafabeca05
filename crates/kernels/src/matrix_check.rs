//! The check of matrix units: a kernel that uses them as products do, and numbers of which every sum is exact.
//!
//! A dispatch binds `x`, `w` and `y` ([`Numbers`]), `partials` and `arrivals`, which is zeros.

use crate::{Catalogue, Feature, Kernel, KernelError, Limits};

/// The features that a device is checked for.
pub const CHECKED: [Feature; 2] = [Feature::CooperativeMatrix, Feature::CooperativeMatrix8];

// These must match `kernels-wgsl/device/checks/matrices.wgsl`.
/// Tiles, the size of `arrivals`.
pub const TILES: usize = 4;
const SPLIT_K: usize = 2;
const K: usize = 512;
const PARTS: usize = 2;

/// f16 of 0 to 7.
const HALVES: [u32; 8] = [0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700];

/// What the kernel reads, and what it must write.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// Activations, packed f16.
    pub x: Vec<u32>,
    /// Weights, bytes.
    pub w: Vec<u32>,
    /// y before.
    pub y: Vec<f32>,
    /// y after.
    pub want: Vec<f32>,
}

/// Side of a fragment; `None` if the feature is not of matrix units.
fn side(feature: Feature) -> Option<usize> {
    match feature {
        Feature::CooperativeMatrix => Some(16),
        Feature::CooperativeMatrix8 => Some(8),
        Feature::Subgroups | Feature::F16 | Feature::CoherentMemory => None,
    }
}

/// The kernel of a feature, with the workgroups that it takes; `None` if the feature needs no check.
///
/// # Errors
/// The device cannot run it, or the kernel's file is wrong.
pub fn kernel(feature: Feature, limits: &Limits, catalogue: &Catalogue) -> Option<Result<Kernel, KernelError>> {
    let tile = PARTS * side(feature)?;
    let fragment = if feature == Feature::CooperativeMatrix { "m16" } else { "m8" };
    let kernel = Kernel::of_device(catalogue.library(), "device/checks/matrices", &[("fragment", fragment)], limits);
    let workgroups = TILES * SPLIT_K;
    let partials = workgroups * tile * tile;
    Some(kernel.map(|kernel| Kernel { workgroups: workgroups as u64, partials: partials as u64, ..kernel }))
}

/// The numbers of a feature; `None` if it needs no check. Sums are past 2,048, so that sums in f16 are seen.
pub fn numbers(feature: Feature) -> Option<Numbers> {
    let side = side(feature)?;
    let (tile, rows) = (PARTS * side, TILES * PARTS * side);
    // Knuth's multiplicative hash: consecutive values differ, so that a value from another place is seen.
    let mixed = |i: usize| (i as u32 + 1).wrapping_mul(2_654_435_761) >> 16;
    let x: Vec<u32> = (0..tile * K).map(|i| mixed(i) % 8).collect();
    let w: Vec<u32> = (0..rows * K).map(|i| 4 + mixed(i + 7919) % 12).collect();
    // From f16 to f32 and in between, all of these are integers.
    let weight = |byte: u32| 2 * (i64::from(byte) - 8) + 1;
    let before = |i: usize| i % 97;
    let product = |tile_number: usize, part: usize, token: usize, row: usize| -> i64 {
        let columns = part * (K / SPLIT_K)..(part + 1) * (K / SPLIT_K);
        let (x, w) = (&x[token * K..][..K], &w[(tile_number * tile + row) * K..][..K]);
        columns.map(|k| i64::from(x[k]) * weight(w[k])).sum()
    };
    let workgroups = TILES * SPLIT_K;
    let sums: Vec<i64> = (0..workgroups * tile * tile)
        .map(|i| {
            let (workgroup, token, row) = (i / (tile * tile), i / tile % tile, i % tile);
            before(i) as i64 + product(workgroup / SPLIT_K, workgroup % SPLIT_K, token, row)
        })
        .collect();
    // Of a workgroup's tile, the places in the order of fragments.
    let by_fragments = |i: usize| {
        let (fragment, token, row) = (i / (side * side), i / side % side, i % side);
        (fragment / PARTS * side + token) * tile + fragment % PARTS * side + row
    };
    let in_tile = tile * tile;
    let staged = (0..sums.len()).map(|i| sums[i / in_tile * in_tile + by_fragments(i % in_tile)]);
    let whole = (0..TILES * in_tile).map(|i| -> i64 {
        let first = |part: usize| (i / in_tile * SPLIT_K + part) * in_tile;
        (0..SPLIT_K).map(|part| sums[first(part) + by_fragments(i % in_tile)]).sum()
    });
    let want: Vec<f32> = sums.iter().copied().chain(staged).chain(whole).map(|sum| sum as f32).collect();
    let y = (0..want.len()).map(|i| if i < sums.len() { before(i) as f32 } else { -1.0 }).collect();
    let x = x.chunks_exact(2).map(|pair| HALVES[pair[0] as usize] | HALVES[pair[1] as usize] << 16).collect();
    let w = w.chunks_exact(4).map(|b| b[0] | b[1] << 8 | b[2] << 16 | b[3] << 24).collect();
    Some(Numbers { x, w, y, want })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use std::collections::BTreeSet;

    #[test]
    fn kernels_are_valid_and_bind_the_promised_operands() {
        for feature in CHECKED {
            let features = BTreeSet::from([Feature::Subgroups, Feature::F16, feature]);
            let limits = Limits { min_subgroup: 32, features, ..Limits::webgpu() };
            let kernel = kernel(feature, &limits, &Catalogue::embedded()).unwrap().unwrap();
            let bound: Vec<(&str, Access)> =
                kernel.facts.bindings.iter().map(|b| (b.name.as_str(), b.access)).collect();
            let (read, write) = (Access::Read, Access::ReadWrite);
            let want = [("x", read), ("w", read), ("y", write), ("partials", write), ("arrivals", write)];
            assert_eq!(bound, want, "{feature}");
            assert!(kernel.facts.features.contains(&feature), "{feature}");
        }
        assert!(kernel(Feature::F16, &Limits::webgpu(), &Catalogue::embedded()).is_none());
    }

    #[test]
    fn sums_are_exact_in_f32_and_not_in_f16() {
        for feature in CHECKED {
            let numbers = numbers(feature).unwrap();
            assert_eq!(numbers.y.len(), numbers.want.len());
            assert!(numbers.want.iter().all(|sum| sum.abs() < 65536.0 && sum.fract() == 0.0), "{feature}");
            let lost = numbers.want.iter().filter(|sum| sum.abs() > 2048.0 && **sum % 2.0 != 0.0).count();
            assert!(3 * lost > numbers.want.len(), "{feature}: f16 holds all but {lost} of {}", numbers.want.len());
            // A tile is no other one, nor is what was there before.
            let (half, quarter) = (numbers.want.len() / 2, numbers.want.len() / 4);
            assert_ne!(numbers.want[..quarter], numbers.want[half..][..quarter]);
            assert!(numbers.want.iter().zip(&numbers.y).all(|(after, before)| after != before), "{feature}");
        }
    }
}
