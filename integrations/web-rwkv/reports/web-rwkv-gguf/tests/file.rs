//! A GGUF file of one tensor, byte by byte.

/// A file with one key and the embedding, of one row. `kind` is the tensor's type by ggml's number.
pub fn gguf(key: &str, value: &[u8], kind: u32, columns: u64, blocks: &[u8]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let mut file = [&b"GGUF"[..], &3u32.to_le_bytes(), &1u64.to_le_bytes(), &1u64.to_le_bytes()].concat();
    file.extend(text(key));
    file.extend(value);
    file.extend(text("token_embd.weight"));
    file.extend(2u32.to_le_bytes());
    file.extend([columns, 1].map(u64::to_le_bytes).concat());
    file.extend(kind.to_le_bytes());
    file.extend(0u64.to_le_bytes());
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend(blocks);
    file
}

/// A value of type u32.
pub fn number(number: u32) -> Vec<u8> {
    [4u32.to_le_bytes(), number.to_le_bytes()].concat()
}

/// An array of bytes that claims to have so many.
pub fn array(len: u64) -> Vec<u8> {
    [&9u32.to_le_bytes()[..], &0u32.to_le_bytes(), &len.to_le_bytes()].concat()
}
