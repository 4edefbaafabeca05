//! The checked list of tokens: all bytes in one buffer, one offset per id.

/// The token that ends a text. It stands for no bytes: decoding it gives nothing, encoding never gives it. In a
/// vocabulary of 256 bytes it is the byte 0 too.
pub const END_OF_TEXT: u32 = 0;

/// Why a list of byte strings is no vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VocabularyError {
    /// Entry 0 stands for bytes.
    #[error("entry 0 is end-of-text and stands for no bytes, here it holds {0} bytes: make it empty")]
    EndOfText(usize),
    /// Text with this byte could not be encoded.
    #[error("no token is the single byte 0x{0:02x}: every byte needs a token, or some text has no encoding")]
    MissingByte(u8),
    /// More bytes or tokens than the trie's 32-bit indices can address.
    #[error("the vocabulary is too large: its {0} tokens or their bytes exceed 2^27")]
    TooLarge(usize),
}

/// The bytes of every token.
#[derive(Debug, Clone)]
pub(super) struct Vocabulary {
    bytes: Vec<u8>,
    /// Entry i is `bytes[offsets[i]..offsets[i + 1]]`.
    offsets: Vec<u32>,
}

impl Vocabulary {
    /// Copies and checks the entries; the conditions are those of [`VocabularyError`].
    pub(super) fn new<'a>(entries: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<Self, VocabularyError> {
        // The trie has at most one node per byte and 16 slots per node (see its builder), indexed by 32 bits.
        const LIMIT: usize = 1 << 27;
        let count = entries.len();
        let mut vocabulary = Vocabulary { bytes: Vec::new(), offsets: Vec::with_capacity(count + 1) };
        vocabulary.offsets.push(0);
        let mut known = [false; 256];
        for (id, entry) in entries.enumerate() {
            let is_byte_0 = count == 256 && entry == [0];
            if id == END_OF_TEXT as usize && !entry.is_empty() && !is_byte_0 {
                return Err(VocabularyError::EndOfText(entry.len()));
            }
            if id >= LIMIT || entry.len() > LIMIT - vocabulary.bytes.len() {
                return Err(VocabularyError::TooLarge(count));
            }
            if let [byte] = entry {
                known[usize::from(*byte)] = true;
            }
            vocabulary.bytes.extend_from_slice(entry);
            vocabulary.offsets.push(vocabulary.bytes.len() as u32);
        }
        match (0..=u8::MAX).find(|&byte| !known[usize::from(byte)]) {
            Some(byte) => Err(VocabularyError::MissingByte(byte)),
            None => Ok(vocabulary),
        }
    }

    /// Number of ids.
    pub(super) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The bytes of `id`, empty where it is unused; `None` beyond the vocabulary.
    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let (start, end) = (*self.offsets.get(id)?, *self.offsets.get(id + 1)?);
        Some(&self.bytes[start as usize..end as usize])
    }

    /// The bytes of every id.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.offsets.windows(2).map(|w| &self.bytes[w[0] as usize..w[1] as usize])
    }
}
