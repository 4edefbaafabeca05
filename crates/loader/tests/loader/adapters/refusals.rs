//! Adapters that are refused, and what is said of them.

use super::{COLS, RANK, ROWS, file, lora, merged, source, tensor, tiny};
use crate::model_files::support::Tensor;
use wgoose_graph::Format;
use wgoose_loader::LoadError;
use wgoose_loader::adapter::{AdapterError, AdapterSource, merge};

/// Tensors with a scale, and what the refusal says.
type Case = (Vec<Tensor>, Option<f32>, &'static [&'static str]);

#[test]
fn adapters_that_do_not_fit_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let a = |name: &str, dims: &[usize]| tensor(&format!("blocks.1.ffn.key.{name}"), dims, 1);
    let cases: Vec<Case> = vec![
        (lora(), None, &["adapter.pth", "alpha / rank", "FILE:1", "--adapter-initial"]),
        (vec![a("lora_A", &[RANK, COLS])], Some(1.0), &["blocks.1.ffn.key.weight", "lacks lora_B"]),
        (vec![a("lora_B", &[ROWS, RANK])], Some(1.0), &["lacks lora_A"]),
        (
            vec![a("lora_A", &[RANK, ROWS]), a("lora_B", &[ROWS, RANK])],
            Some(1.0),
            &["'blocks.1.ffn.key.lora_A'", "[3, 96]", "blocks.1.ffn.key.weight is [96, 64]"],
        ),
        (
            vec![a("lora_A", &[RANK, COLS]), a("lora_B", &[ROWS, 4])],
            Some(1.0),
            &["'blocks.1.ffn.key.lora_B'", "[96, 4]", "rank of lora_A"],
        ),
        (vec![a("disha", &[4, COLS])], None, &["'blocks.1.ffn.key.disha'", "[4, 64]", "is [96, 64]", "[rank, rows]"]),
        (vec![a("disha", &[ROWS / 16, 16, 16])], None, &["[6, 16, 16]", "[columns / r, r, r]"]),
        (vec![a("miss_block", &[COLS / 16, 16, 16])], None, &["[4, 16, 16]", "[rows / r, r, r]"]),
        (vec![a("bone", &[2]), a("lora_A", &[RANK, COLS])], None, &["changed twice", "lora_A"]),
        (
            vec![a("lora_A", &[RANK, COLS]), a("lora_A.weight", &[RANK, COLS]), a("lora_B", &[ROWS, RANK])],
            Some(1.0),
            &["changed twice"],
        ),
        (vec![tensor("blocks.3.att.key.lora_A", &[3, 64], 1)], Some(1.0), &["blocks.3.att.key.lora_A", "3 layers"]),
        (vec![a("lora_M", &[64])], Some(1.0), &["'blocks.1.ffn.key.lora_M'", "DoRA"]),
        (vec![tensor("blocks.0.att.time_state", &[2, 32, 32], 1)], None, &["tuned initial state"]),
        (vec![tensor("blocks.0.ln1.weight", &[64], 1)], None, &["no adapter"]),
        (vec![], None, &["no adapter"]),
        (
            [lora(), vec![tensor("blocks.0.ln1.weight", &[63], 1)]].concat(),
            Some(1.0),
            &["'blocks.0.ln1.weight'", "[63]", "is [1, 64]"],
        ),
        (lora(), Some(f32::MAX), &["blocks.1.ffn.key.weight would hold", "F32", "scale"]),
    ];
    for (tensors, scale, says) in cases {
        let error = merged(&folder, &tensors, scale).unwrap_err().to_string();
        for part in says {
            assert!(error.contains(part), "'{part}' in {error}");
        }
    }
}

#[test]
fn initial_halves_that_do_not_belong_to_the_adapter_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |tensors: &[Tensor], initial: &[Tensor], says: &str| {
        let initial = Some(file(&folder, "initial.pth", initial));
        let adapter = source(&file(&folder, "adapter.pth", tensors), None);
        let error = merge(&mut tiny(&folder), &AdapterSource { initial, ..adapter }).unwrap_err().to_string();
        assert!(error.contains(says), "'{says}' in {error}");
    };
    let halves = |module: &str| {
        let name = |half: &str| format!("model.{module}.init_lora_{half}");
        vec![tensor(&name("A"), &[RANK, COLS], 1), tensor(&name("B"), &[ROWS, RANK], 1)]
    };
    refused(&lora(), &lora(), "'blocks.1.ffn.key.lora_A' cannot be merged: it is not what a PiSSA began with");
    refused(&lora(), &halves("blocks.0.ffn.key"), "blocks.1.ffn.key.weight is not complete: it lacks init_lora_A");
    let both = [&halves("blocks.1.ffn.key")[..], &halves("blocks.0.ffn.key")].concat();
    refused(&lora(), &both, "blocks.0.ffn.key.weight is not complete: it lacks lora_A");
    refused(&lora(), &halves("blocks.9.ffn.key"), "3 layers");
    refused(&lora(), &halves("blocks.1.ffn.key")[..1], "lacks init_lora_B");
    refused(&[tensor("blocks.1.ffn.key.disha", &[4, ROWS], 1)], &halves("blocks.1.ffn.key"), "has no LoRA");
}

#[test]
fn numbers_beyond_the_format_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let nan = [f32::NAN; ROWS * 4];
    let block = Tensor::new("blocks.1.ffn.key.disha", Format::BF16, &[4, ROWS], &nan);
    let error = merged(&folder, &[block], None).unwrap_err().into_reason();
    assert!(matches!(error, LoadError::Adapter(AdapterError::Range { format: Format::F32, .. })), "{error}");
}
