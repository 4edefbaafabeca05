//! The description of a model in a GGUF file.

use super::metadata::Metadata;
use crate::contents::About;

/// Longest text that is kept, in characters.
const LONGEST: usize = 200;

/// Takes what is there and of the right kind.
pub(super) fn read(metadata: &Metadata<'_>) -> About {
    let text = |key| metadata.text(key).ok().flatten().filter(|text| !text.is_empty());
    let short = |key| text(key).map(|text| text.chars().take(LONGEST).collect());
    let file_type = metadata.unsigned("general.file_type").ok().flatten();
    About {
        name: short("general.name"),
        author: short("general.author"),
        licence: short("general.license"),
        quantisation: file_type.and_then(quantisation),
        tokenizer: short("tokenizer.ggml.model"),
        chat_template: text("tokenizer.chat_template"),
    }
}

/// llama.cpp's `enum llama_ftype` (`llama.h`).
fn quantisation(file_type: u64) -> Option<&'static str> {
    Some(match file_type {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K",
        11 => "Q3_K_S",
        12 => "Q3_K_M",
        13 => "Q3_K_L",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        25 => "IQ4_NL",
        30 => "IQ4_XS",
        32 => "BF16",
        _ => return None,
    })
}
