//! GGUF, version 2 and 3, little endian (layout: ggml's `docs/gguf.md`).
//!
//! magic, version, counts | key-value pairs | tensor descriptions | padding | tensors

mod about;
mod cursor;
mod error;
mod metadata;
pub(crate) mod pair;
mod tensors;
pub(crate) mod vocabulary;

pub use error::GgufError;
pub(crate) use metadata::pairs;

use crate::contents::{Contents, Pairs, Part, Size};
use cursor::Cursor;
use metadata::Metadata;

/// Smallest key-value pair: the key's length, the type, a value of one byte.
const MIN_PAIR: usize = 8 + 4 + 1;
/// Smallest tensor description: name's length, number of dimensions, one size, type, offset.
const MIN_TENSOR: usize = 8 + 4 + 8 + 4 + 8;

/// The one size that no tensor of a GGUF file shows.
const HEAD_SIZE: &str = "rwkv7.wkv.head_size";

/// How many files a model was split into.
const SPLIT_COUNT: &str = "split.count";
/// Which of them a file is, from 0 on.
const SPLIT_NUMBER: &str = "split.no";

/// Keys that state a size of the model.
const SIZES: [(&str, Size); 9] = [
    ("rwkv7.block_count", Size::Layers),
    ("rwkv7.embedding_length", Size::Width),
    ("rwkv7.feed_forward_length", Size::Ffn),
    (HEAD_SIZE, Size::Head),
    ("rwkv7.attention.decay_lora_rank", Size::DecayRank),
    ("rwkv7.attention.iclr_lora_rank", Size::IclrRank),
    ("rwkv7.attention.value_residual_mix_lora_rank", Size::ValueRank),
    ("rwkv7.attention.gate_lora_rank", Size::GateRank),
    ("rwkv7.vocab_size", Size::Vocab),
];

/// Reads everything but the tensors' bytes.
pub(crate) fn read(file: &[u8]) -> Result<Contents, GgufError> {
    let mut cursor = Cursor::new(file, 0);
    cursor.take("magic", 4)?;
    match cursor.u32("version")? {
        2 | 3 => {}
        version if matches!(version.swap_bytes(), 1..=3) => return Err(GgufError::BigEndian),
        version => return Err(GgufError::Version(version)),
    }
    let tensors = cursor.u64("number of tensors")?;
    let pairs = cursor.count("key-value pairs", MIN_PAIR)?;
    cursor.expect("tensors", tensors, MIN_TENSOR)?;
    let described = Pairs { offset: cursor.offset(), count: pairs };
    let metadata = Metadata::read(&mut cursor, pairs)?;

    if let Some(kind) = metadata.text("general.type")?.filter(|kind| kind != "model") {
        return Err(GgufError::Type { kind });
    }
    let part = part(&metadata)?;
    // Parts behind the first describe their tensors and nothing else.
    let describes_model = part.is_none_or(|part| part.number == 0);
    match metadata.text("general.architecture")? {
        Some(name) if name != "rwkv7" => return Err(GgufError::Architecture(name)),
        None if describes_model => return Err(GgufError::MissingKey("general.architecture")),
        Some(_) | None => {}
    }
    let alignment = metadata.unsigned("general.alignment")?.unwrap_or(32);
    if !alignment.is_power_of_two() || alignment > 1 << 30 {
        return Err(GgufError::Alignment(alignment));
    }
    let directory = tensors::read(&mut cursor, tensors, alignment, file.len())?;

    if describes_model && metadata.unsigned(HEAD_SIZE)?.is_none() {
        return Err(GgufError::MissingKey(HEAD_SIZE));
    }
    let mut declared = Vec::new();
    for (key, size) in SIZES {
        if let Some(value) = metadata.unsigned(key)? {
            declared.push((key, size, value));
        }
    }
    let tokens = "tokenizer.ggml.tokens";
    let vocabulary = metadata.strings(tokens)?;
    declared.extend(vocabulary.map(|v| (tokens, Size::Vocab, v.count as u64)));
    let norm_epsilon = metadata.float("rwkv7.attention.layer_norm_epsilon")?;
    let about = about::read(&metadata);
    Ok(Contents {
        directory,
        declared,
        norm_epsilon,
        header: 0..cursor.offset(),
        vocabulary,
        pairs: Some(described),
        about,
        part,
    })
}

/// The part that a file says it is (`gguf-split` of llama.cpp, `src/llama-arch.cpp` has the keys).
fn part(metadata: &Metadata<'_>) -> Result<Option<Part>, GgufError> {
    // Parts that were merged again count 0.
    let Some(count) = metadata.unsigned(SPLIT_COUNT)?.filter(|count| *count > 1) else { return Ok(None) };
    let number = metadata.unsigned(SPLIT_NUMBER)?.ok_or(GgufError::MissingKey(SPLIT_NUMBER))?;
    Ok(Some(Part { number, count, tensors: metadata.unsigned("split.tensors.count")? }))
}
