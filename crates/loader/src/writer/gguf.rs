//! The header of a GGUF file, version 3 (layout: ggml's `docs/gguf.md`; keys: llama.cpp's converter for RWKV-7).

use super::layout::Layout;
use super::{Mix, Outline, WriteError};

/// Tensors begin at multiples of this, the default where a file states no other.
pub(super) const ALIGNMENT: u64 = 32;

/// The end-of-text token of llama.cpp's RWKV files, where the vocabulary reaches that far.
const END_OF_TURN: u32 = 261;

/// What llama.cpp's converter states when the checkpoint states nothing.
const CONTEXT: u32 = 1 << 20;

/// Kinds of token, as ggml counts them.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const UNUSED: i32 = 5;

/// The bytes before the first tensor.
pub(super) fn header(outline: &Outline<'_>, layout: &Layout) -> Result<Vec<u8>, WriteError> {
    let tokens = tokens(outline)?;
    let mut pairs = Pairs::default();
    pairs.string("general.architecture", "rwkv7");
    pairs.string("general.name", outline.name);
    pairs.u32("general.file_type", file_type(outline.mix));
    if outline.mix.is_quantised() {
        pairs.u32("general.quantization_version", 2);
    }
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
    for (key, value) in sizes {
        pairs.u32(&format!("rwkv7.{key}"), value);
    }
    pairs.f32("rwkv7.attention.layer_norm_epsilon", 1e-5);
    pairs.string("tokenizer.ggml.model", "rwkv");
    pairs.strings("tokenizer.ggml.tokens", tokens.iter().map(|(text, _)| text.as_str()));
    pairs.i32s("tokenizer.ggml.token_type", tokens.iter().map(|(_, kind)| *kind));
    if shape.vocab > END_OF_TURN {
        pairs.u32("tokenizer.ggml.eot_token_id", END_OF_TURN);
    }
    if let Some(name) = outline.chat_template {
        pairs.string("tokenizer.chat_template", name);
    }

    let mut header = b"GGUF".to_vec();
    header.extend(3_u32.to_le_bytes());
    header.extend((layout.tensors.len() as u64).to_le_bytes());
    header.extend(pairs.count.to_le_bytes());
    header.extend(pairs.bytes);
    for tensor in &layout.tensors {
        push_string(&mut header, &tensor.name);
        header.extend((tensor.dims.len() as u32).to_le_bytes());
        for dim in tensor.dims.iter().rev() {
            header.extend(u64::from(*dim).to_le_bytes()); // the fastest-varying first
        }
        header.extend(tensor.format.info().ggml_type.to_le_bytes());
        header.extend(tensor.offset.to_le_bytes());
    }
    header.resize(header.len().next_multiple_of(ALIGNMENT as usize), 0);
    Ok(header)
}

/// The text and kind of each token, one per row of the embedding.
fn tokens(outline: &Outline<'_>) -> Result<Vec<(String, i32)>, WriteError> {
    let rows = outline.shape.vocab;
    let given = outline.vocabulary.unwrap_or(&[]);
    if given.len() > rows as usize {
        return Err(WriteError::Vocabulary { tokens: given.len(), rows });
    }
    let token = |id: u32| match (id, &outline.vocabulary) {
        (0, _) => ("<s>".to_owned(), CONTROL),
        (1..=256, None) => (python_repr(&[(id - 1) as u8]), NORMAL),
        _ => match given.get(id as usize) {
            Some(bytes) if !bytes.is_empty() => (python_repr(bytes), NORMAL),
            _ => (format!("[PAD{id}]"), UNUSED),
        },
    };
    Ok((0..rows).map(token).collect())
}

/// What Python's `repr` prints for the bytes, without `b` and quotes.
fn python_repr(bytes: &[u8]) -> String {
    // Python quotes with `"` where that spares an escape.
    let escape_quote = bytes.contains(&b'"');
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\n' => text.push_str(r"\n"),
            b'\r' => text.push_str(r"\r"),
            b'\t' => text.push_str(r"\t"),
            b'\\' => text.push_str(r"\\"),
            b'\'' if escape_quote => text.push_str(r"\'"),
            b' '..=b'~' => text.push(*byte as char),
            _ => text.push_str(&format!(r"\x{byte:02x}")),
        }
    }
    text
}

/// The key-value section.
#[derive(Default)]
struct Pairs {
    count: u64,
    bytes: Vec<u8>,
}

impl Pairs {
    fn key(&mut self, key: &str, kind: u32) {
        self.count += 1;
        push_string(&mut self.bytes, key);
        self.bytes.extend(kind.to_le_bytes());
    }

    fn u32(&mut self, key: &str, value: u32) {
        self.key(key, 4);
        self.bytes.extend(value.to_le_bytes());
    }

    fn f32(&mut self, key: &str, value: f32) {
        self.key(key, 6);
        self.bytes.extend(value.to_le_bytes());
    }

    fn string(&mut self, key: &str, value: &str) {
        self.key(key, 8);
        push_string(&mut self.bytes, value);
    }

    fn strings<'a>(&mut self, key: &str, values: impl ExactSizeIterator<Item = &'a str>) {
        self.array(key, 8, values.len());
        for value in values {
            push_string(&mut self.bytes, value);
        }
    }

    fn i32s(&mut self, key: &str, values: impl ExactSizeIterator<Item = i32>) {
        self.array(key, 5, values.len());
        for value in values {
            self.bytes.extend(value.to_le_bytes());
        }
    }

    fn array(&mut self, key: &str, kind: u32, len: usize) {
        self.key(key, 9);
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend((len as u64).to_le_bytes());
    }
}

fn push_string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.bytes());
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
    use super::python_repr;

    #[test]
    fn tokens_are_written_as_python_prints_them() {
        // The right-hand sides are what CPython prints.
        for (bytes, text) in [
            (b"a b".as_slice(), "a b"),
            (b"\n\r\t\\", r"\n\r\t\\"),
            (b"it's", "it's"),
            (b"'\"", r#"\'""#),
            (b"\"", "\""),
            (b"\x00\x7f\xe4\xbd", r"\x00\x7f\xe4\xbd"),
        ] {
            assert_eq!(python_repr(bytes), text);
        }
    }
}
