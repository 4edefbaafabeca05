//! The metadata of a GGUF file: what the tensors say, what the source says beside them, and what was asked for.
//!
//! The keys follow llama.cpp's converter for RWKV-7 (`conversion/rwkv.py` there). The source's description of itself is
//! kept, type and bytes, except for keys that the new file changes: the formats, the alignment, the parts of a split
//! file.

use super::tokens::tokens;
use crate::gguf::pair::Pair;
use crate::writer::layout::{Layout, Tensor};
use crate::writer::{Mix, Outline, Setting, WriteError};

/// What llama.cpp's converter states when the checkpoint states nothing.
const CONTEXT: u32 = 1 << 20;

/// The token that ends a document: `<s>`, which no text contains. llama.cpp's files have it as begin and end.
const END_OF_TEXT: u32 = 0;

/// The text of the token at which llama.cpp ends an answer of a chat.
const END_OF_TURN: &[u8] = b"\n\n";

/// How a conversation is written, as Jinja: what `wgoose chat` does. llama.cpp recognises it by the word `rwkv-world`.
const CHAT_TEMPLATE: &str = include_str!("chat_template.jinja");

const TEMPLATE: &str = "tokenizer.chat_template";

/// What files had in place of the template's text: a name that only llama.cpp knows. Others take it for the text of a
/// chat.
const TEMPLATE_NAME: &str = "rwkv-world";

/// How far formats that were chosen tensor by tensor make a model from its source: the mean Kullback-Leibler divergence, in
/// nats a token. No key of ggml's says this.
const DIVERGENCE: &str = "wgoose.quantize.kl_divergence";

/// The kind of vocabulary that llama.cpp runs a model by token ids for.
const NO_VOCABULARY: &str = "no_vocab";

const TOKENS: &str = "tokenizer.ggml.tokens";

/// All keys with their values, in the file's order.
pub(super) fn pairs(outline: &Outline<'_>, layout: &Layout) -> Result<Vec<Pair>, WriteError> {
    let mut pairs = own(outline, layout)?;
    let has_tokens = outline.kept.iter().any(|pair| pair.key == TOKENS);
    let named = Pair::string(TEMPLATE, TEMPLATE_NAME);
    for pair in outline.kept.iter().filter(|pair| **pair != named) {
        let is_of_other_tokens = !has_tokens && pair.key.starts_with("tokenizer.ggml.");
        if !is_of_the_file(&pair.key) && !is_of_other_tokens {
            put(&mut pairs, pair.clone());
        }
    }
    for pair in formats(outline) {
        put(&mut pairs, pair);
    }
    for setting in outline.set {
        let pair = set(&pairs, setting)?;
        put(&mut pairs, pair);
    }
    Ok(pairs)
}

/// What can be said of a model without its source.
fn own(outline: &Outline<'_>, layout: &Layout) -> Result<Vec<Pair>, WriteError> {
    let weights = layout.tensors.iter().map(Tensor::weights).sum();
    let mut pairs = vec![
        Pair::string("general.architecture", "rwkv7"),
        Pair::string("general.type", "model"),
        Pair::string("general.name", outline.name),
        Pair::string("general.size_label", &size_label(weights)),
    ];
    pairs.extend(formats(outline));
    let shape = outline.shape;
    let sizes = [
        ("context_length", CONTEXT),
        ("embedding_length", shape.width),
        ("block_count", shape.layers),
        ("feed_forward_length", shape.ffn),
        ("wkv.head_size", shape.head_size),
        ("attention.head_count", 0), // "no attention": llama.cpp demands the key
        ("attention.decay_lora_rank", shape.ranks.decay),
        ("attention.iclr_lora_rank", shape.ranks.iclr),
        ("attention.value_residual_mix_lora_rank", shape.ranks.value),
        ("attention.gate_lora_rank", shape.ranks.gate),
    ];
    pairs.extend(sizes.map(|(key, value)| Pair::u32(&format!("rwkv7.{key}"), value)));
    pairs.push(Pair::f32("rwkv7.attention.layer_norm_epsilon", 1e-5));

    let Some(tokens) = tokens(outline)? else {
        pairs.push(Pair::u32("rwkv7.vocab_size", shape.vocab));
        pairs.push(Pair::string("tokenizer.ggml.model", NO_VOCABULARY));
        return Ok(pairs);
    };
    pairs.push(Pair::string("tokenizer.ggml.model", "rwkv"));
    pairs.push(Pair::strings(TOKENS, tokens.iter().map(|(text, _)| text.as_str())));
    pairs.push(Pair::i32s("tokenizer.ggml.token_type", tokens.iter().map(|(_, kind)| *kind)));
    pairs.push(Pair::u32("tokenizer.ggml.bos_token_id", END_OF_TEXT));
    pairs.push(Pair::u32("tokenizer.ggml.eos_token_id", END_OF_TEXT));
    let end_of_turn = outline.vocabulary.and_then(|tokens| tokens.iter().position(|bytes| bytes == END_OF_TURN));
    if let Some(id) = end_of_turn {
        pairs.push(Pair::u32("tokenizer.ggml.eot_token_id", id as u32));
        pairs.push(Pair::string(TEMPLATE, CHAT_TEMPLATE));
    }
    Ok(pairs)
}

/// What the formats of the tensors make true.
fn formats(outline: &Outline<'_>) -> Vec<Pair> {
    let mut pairs = vec![Pair::u32("general.file_type", file_type(outline.mix))];
    if outline.is_quantised() {
        pairs.push(Pair::u32("general.quantization_version", 2));
    }
    pairs.extend(outline.chosen.map(|chosen| Pair::f32(DIVERGENCE, chosen.kl)));
    pairs
}

/// Whether a key says where the tensors of its file lie or what they were measured to be, which is another matter in a copy.
fn is_of_the_file(key: &str) -> bool {
    key == "general.alignment" || key == DIVERGENCE || key.starts_with("split.")
}

/// Whether a key must be as the tensors are.
fn is_of_the_tensors(key: &str) -> bool {
    let is_size = key.starts_with("rwkv7.") && key != "rwkv7.context_length";
    let general = ["general.architecture", "general.file_type", "general.quantization_version", "tokenizer.ggml.model"];
    is_of_the_file(key) || is_size || general.contains(&key)
}

/// Enters a pair in place of the one with its key, or behind the last.
fn put(pairs: &mut Vec<Pair>, pair: Pair) {
    match pairs.iter_mut().find(|there| there.key == pair.key) {
        Some(there) => *there = pair,
        None => pairs.push(pair),
    }
}

/// The pair that was asked for: of the type that is there, a text where nothing is.
fn set(pairs: &[Pair], setting: &Setting) -> Result<Pair, WriteError> {
    let Setting { key, value } = setting;
    if is_of_the_tensors(key) {
        return Err(WriteError::KeyOfTensors { key: key.clone() });
    }
    match pairs.iter().find(|there| there.key == *key) {
        None => Ok(Pair::string(key, value)),
        Some(there) => there.with(value).ok_or_else(|| WriteError::KeyKind {
            key: key.clone(),
            expected: there.kind_name(),
            value: value.clone(),
        }),
    }
}

/// The number of weights as people say it, two digits at least: 7.8M, 191M, 2.9B (llama.cpp's `size_label`).
fn size_label(weights: u64) -> String {
    let units = [(1e12, 'T'), (1e9, 'B'), (1e6, 'M')];
    let weights = weights as f64;
    let (scale, unit) = units.into_iter().find(|(scale, _)| weights > *scale).unwrap_or((1e3, 'K'));
    let scaled = weights / scale;
    let decimals = if scaled < 9.5 { 1 } else { 0 };
    format!("{scaled:.decimals$}{unit}")
}

/// Numbers of llama.cpp's `enum llama_ftype`.
const fn file_type(mix: Mix) -> u32 {
    match mix {
        Mix::F32 => 0,
        Mix::F16 => 1,
        Mix::Q4_0 => 2,
        Mix::Q8_0 => 7,
        Mix::Q4_K_M => 15,
        Mix::Q5_K_M => 17,
        Mix::Q6_K => 18,
        Mix::BF16 => 32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_said_with_two_digits() {
        for (weights, label) in [
            (450_000, "450K"),
            (7_760_000, "7.8M"),
            (191_000_000, "191M"),
            (2_940_000_000, "2.9B"),
            (13_300_000_000, "13B"),
        ] {
            assert_eq!(size_label(weights), label);
        }
    }
}
