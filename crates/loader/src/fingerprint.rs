//! Which model a file holds, told without reading all of it.

use crate::names::Container;
use std::fmt;

/// Identifies a model's content: equal files have equal fingerprints, wherever they lie and whatever they are called.
///
/// It is the first 128 bits of a BLAKE3 hash of the container's kind, the length of all files, all bytes that describe
/// the tensors, and up to 3 KiB of each tensor. Two trainings or quantisations of one model differ everywhere and hence
/// in the samples; a file altered on purpose between them may not. A model in shards has another fingerprint than the
/// same model in one file. [`fmt::Display`] writes 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 16]);

/// Bytes per sample; taken at the start, the middle and the end of each piece.
const SAMPLE: usize = 1024;

impl Fingerprint {
    /// Hashes the headers of all files and samples of the pieces, which come in the model's order, not in the files'.
    pub(crate) fn of<'a>(
        container: Container,
        file_len: usize,
        headers: impl IntoIterator<Item = &'a [u8]>,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(container.to_string().as_bytes());
        hasher.update(&(file_len as u64).to_le_bytes());
        for header in headers {
            hasher.update(&(header.len() as u64).to_le_bytes());
            hasher.update(header);
        }
        for piece in pieces {
            if piece.len() <= 3 * SAMPLE {
                hasher.update(piece);
                continue;
            }
            for start in [0, piece.len() / 2 - SAMPLE / 2, piece.len() - SAMPLE] {
                hasher.update(&piece[start..start + SAMPLE]);
            }
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Fingerprint(id)
    }

    /// Its 128 bits.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_taken_at_start_middle_and_end() {
        let of = |piece: &[u8]| Fingerprint::of(Container::Gguf, 0, [&b"header"[..]], [piece]);
        let piece = vec![0; 10 * SAMPLE];
        for (at, counts) in [(0, true), (2 * SAMPLE, false), (5 * SAMPLE, true), (10 * SAMPLE - 1, true)] {
            let mut altered = piece.clone();
            altered[at] = 1;
            assert_eq!(of(&altered) != of(&piece), counts, "byte {at}");
        }
        assert_ne!(of(&[]), Fingerprint::of(Container::Gguf, 1, [&b"header"[..]], []), "length of the file");
        assert_ne!(of(&[]), Fingerprint::of(Container::Pth, 0, [&b"header"[..]], []), "kind of the file");
        assert_ne!(of(b"x"), Fingerprint::of(Container::Gguf, 0, [&b"headerx"[..]], []), "end of the header");
    }
}
