//! SPIR-V of kernels that keep f16 packed in words: two things that WGSL cannot say.
//!
//! - Cooperative matrices of f16 are loaded from workgroup memory that was stored to as words, and their sums stored there.
//!   SPV_KHR_cooperative_matrix allows any type of elements behind the pointer. In WGSL the access goes to a twin of the array,
//!   named `NAME_as_f16` or `NAME_as_f32`; here its pointer becomes one to `NAME`, whose elements of 16 bytes index and stride
//!   count.
//! - A word is two f16: calls of `bits_as_half2` and `half2_as_bits` (kernels-wgsl/lib/coop/bits.wgsl) become bit casts.
//!
//! With f16 in registers between storage and workgroup memory products are a third slower on an H200.

use super::words::{HEADER, instructions, opcode, string};
use spirv::Op;
use std::collections::{HashMap, HashSet};

/// Endings of a twin's name.
const TWINS: [&str; 2] = ["_as_f16", "_as_f32"];
const CASTS: [&str; 2] = ["bits_as_half2", "half2_as_bits"];

/// Loads the twins' originals, and casts bits. `None` if the words are no module with names, or a twin has no original.
pub(super) fn reinterpreted(words: &[u32]) -> Option<Vec<u32>> {
    let mut names = HashMap::new();
    let mut variables = HashSet::new();
    let mut chains = HashMap::new();
    for instruction in instructions(words)? {
        match (Op::from_u32(opcode(instruction)), instruction) {
            (Some(Op::Name), [_, id, text @ ..]) => {
                names.insert(string(text), *id);
            }
            (Some(Op::Variable), [_, _, id, ..]) => {
                variables.insert(*id);
            }
            // The type of a pointer into an array, by the array.
            (Some(Op::AccessChain), [_, ty, _, base, ..]) => {
                chains.insert(*base, *ty);
            }
            _ => {}
        }
    }
    let casts = CASTS.map(|name| names.get(name).copied());
    let mut originals = HashMap::new();
    for (name, twin) in names.iter().filter(|(_, id)| variables.contains(id)) {
        if let Some(original) = TWINS.iter().find_map(|twin| name.strip_suffix(twin)) {
            let original = names.get(original)?;
            originals.insert(*twin, (*original, *chains.get(original)?));
        }
    }
    let mut out = words.get(..HEADER)?.to_vec();
    for instruction in instructions(words)? {
        let mut copy = instruction.to_vec();
        match (Op::from_u32(opcode(instruction)), instruction) {
            (Some(Op::AccessChain), [_, _, _, base, ..]) => {
                if let Some((original, ty)) = originals.get(base) {
                    (copy[1], copy[3]) = (*ty, *original);
                }
            }
            (Some(Op::FunctionCall), [_, ty, id, function, argument]) if casts.contains(&Some(*function)) => {
                copy = vec![(4 << 16) | Op::Bitcast as u32, *ty, *id, *argument];
            }
            _ => {}
        }
        out.extend(copy);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipelines::spirv::{tests::kernel, translated};

    /// Ids by name, and the words of all instructions of one kind.
    fn read(words: &[u32], op: Op) -> (HashMap<String, u32>, Vec<Vec<u32>>) {
        let all = || instructions(words).unwrap();
        let of = |op: Op| all().filter(move |i| opcode(i) == op as u32).map(<[u32]>::to_vec);
        (of(Op::Name).map(|i| (string(&i[2..]), i[1])).collect(), of(op).collect())
    }

    #[test]
    fn matrices_are_loaded_from_where_the_words_were_stored() {
        let words = translated(&kernel("gemm_coop_splitk")).unwrap();
        let patched = reinterpreted(&words).unwrap();
        let bases = |words: &[u32], name: &str| {
            let (names, chains) = read(words, Op::AccessChain);
            chains.iter().filter(|chain| chain[3] == names[name]).count()
        };
        for (tile, ending) in [("tile_x", TWINS[0]), ("tile_w", TWINS[0]), ("tile_w", TWINS[1])] {
            let twin = format!("{tile}{ending}");
            let (stored, loaded) = (bases(&words, tile), bases(&words, &twin));
            assert!(stored > 0 && loaded > 0, "{tile}: {stored} stores, {loaded} loads");
            assert_eq!(bases(&patched, &twin), 0, "{tile}");
            assert!(bases(&patched, tile) >= stored + loaded, "{tile}");
        }
        // The pointers have the type of what they point to.
        let (names, chains) = read(&patched, Op::AccessChain);
        let types: std::collections::BTreeSet<u32> =
            chains.iter().filter(|chain| chain[3] == names["tile_x"]).map(|chain| chain[1]).collect();
        assert_eq!(types.len(), 1);
    }

    #[test]
    fn packed_halves_are_cast_and_not_converted() {
        let kernel = crate::pipelines::spirv::tests::kernel_in("gemm_coop_splitk", wgoose_graph::Format::Q4_K);
        let words = translated(&kernel).unwrap();
        let calls = |words: &[u32]| {
            let (names, calls) = read(words, Op::FunctionCall);
            calls.iter().filter(|call| CASTS.iter().any(|name| names[*name] == call[3])).count()
        };
        let bit_casts = |words: &[u32]| read(words, Op::Bitcast).1.len();
        let patched = reinterpreted(&words).unwrap();
        assert!(calls(&words) > 0);
        assert_eq!((calls(&patched), bit_casts(&patched)), (0, bit_casts(&words) + calls(&words)));
    }

    #[test]
    fn a_malformed_module_is_refused() {
        assert_eq!(reinterpreted(&[]), None);
        assert_eq!(reinterpreted(&[0; HEADER]).map(|words| words.len()), Some(HEADER));
        let twin = [(4 << 16) | Op::Name as u32, 7, u32::from_le_bytes(*b"a_as"), u32::from_le_bytes(*b"_f16")];
        let named = [vec![0; HEADER], twin.to_vec()].concat();
        assert_eq!(reinterpreted(&named), Some(named.clone()), "no variable has this name");
        let array = [vec![0; HEADER], twin.to_vec(), vec![(4 << 16) | Op::Variable as u32, 1, 7, 4]].concat();
        assert_eq!(reinterpreted(&array), None, "there is no array a");
    }
}
