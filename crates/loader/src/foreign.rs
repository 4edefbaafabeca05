//! Files that are no model, told by their first bytes: what people have in its place, and what to do then.

use std::fmt;

/// What a file is that is no model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// It has no bytes.
    Empty,
    /// What a clone without git-lfs has in place of a large file.
    LfsPointer,
    /// HTML: a page about the file, or an error.
    WebPage,
    /// It is compressed, by the program of that name.
    Compressed(&'static str),
    /// It is an archive of files, of that kind.
    Archive(&'static str),
    /// A model as another program alone keeps it, such as that.
    OtherModel(&'static str),
    /// A document of that kind.
    Document(&'static str),
    /// A plan, as `wgoose tune` writes it.
    Plan,
    /// Some other text; its first line, at most 60 characters.
    Text(String),
    /// Anything else; its first bytes, 16 at most.
    Bytes(Vec<u8>),
}

/// Where a tar archive says that it is one.
const TAR: std::ops::Range<usize> = 257..262;

impl Foreign {
    /// What a file is that is of no [`Container`](crate::Container), by its bytes.
    pub(crate) fn of(file: &[u8]) -> Foreign {
        let start = &file[..file.len().min(512)];
        match start {
            [] => Foreign::Empty,
            [0x1f, 0x8b, ..] => Foreign::Compressed("gzip"),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Foreign::Compressed("zstd"),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Foreign::Compressed("xz"),
            [b'B', b'Z', b'h', ..] => Foreign::Compressed("bzip2"),
            [0x04, 0x22, 0x4d, 0x18, ..] => Foreign::Compressed("lz4"),
            [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => Foreign::Archive("7z"),
            [b'R', b'a', b'r', b'!', 0x1a, 7, ..] => Foreign::Archive("RAR"),
            _ if start.get(TAR) == Some(b"ustar") => Foreign::Archive("tar"),
            [b'f', b'm' | b'j', b'g', b'g', ..] => Foreign::OtherModel("rwkv.cpp"),
            // ModelProto: the version of the format in one byte, then the name of the program that wrote it.
            [0x08, 1..=32, 0x12, len, name @ ..] if name.get(usize::from(*len)).is_some() => {
                Foreign::OtherModel("ONNX")
            }
            [0x89, b'H', b'D', b'F', ..] => Foreign::OtherModel("Keras (HDF5)"),
            [_, _, _, _, b'T', b'F', b'L', b'3', ..] => Foreign::OtherModel("TensorFlow Lite"),
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Foreign::Document("an array of NumPy"),
            [b'%', b'P', b'D', b'F', ..] => Foreign::Document("a PDF"),
            _ => Foreign::of_text(start),
        }
    }

    /// What a text is; bytes, if it is none.
    fn of_text(start: &[u8]) -> Foreign {
        let text = start.trim_ascii_start();
        let begins =
            |with: &str| text.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with.as_bytes()));
        match std::str::from_utf8(start).ok().and_then(|text| text.lines().find(|line| !line.trim().is_empty())) {
            _ if start.starts_with(b"version https://git-lfs") => Foreign::LfsPointer,
            _ if begins("<!doctype html") || begins("<html") => Foreign::WebPage,
            _ if begins("(") && text.windows(7).take(64).any(|part| part == b"schema:") => Foreign::Plan,
            Some(line) if !line.contains(|c: char| c.is_control() && c != '\t') => {
                Foreign::Text(line.chars().take(60).collect())
            }
            _ => Foreign::Bytes(start[..start.len().min(16)].to_vec()),
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Foreign::Empty => f.write_str("the file is empty: copy or download the model again"),
            Foreign::LfsPointer => {
                f.write_str("a git-lfs pointer, not the model itself: run `git lfs pull` in its folder")
            }
            Foreign::WebPage => f.write_str(
                "a web page (HTML), not a model: the download failed, or its address is that of a page about the file",
            ),
            Foreign::Compressed(program) => write!(f, "compressed with {program}: unpack it first"),
            Foreign::Archive(kind) => {
                write!(f, "an archive ({kind}), not a model: unpack it, and name the model in it")
            }
            Foreign::OtherModel(program) => {
                write!(f, "a model for {program} alone: take the .pth, .safetensors or GGUF file that it was made of")
            }
            Foreign::Document(kind) => write!(f, "{kind}, not a model (GGUF, safetensors or a .pth)"),
            Foreign::Plan => f.write_str("a plan, not a model: name the model, and the plan with --plan"),
            Foreign::Text(line) => write!(
                f,
                "a text, not a model (GGUF, safetensors or a .pth written by torch.save), which begins '{line}'"
            ),
            Foreign::Bytes(start) => {
                write!(f, "not a model: expected GGUF, safetensors or a .pth written by torch.save, found {start:02x?}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_foreign_files_are_named() {
        let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
        let tar = [&b"rwkv7.pth"[..], &[0; 248], b"ustar\0"].concat();
        for (file, is) in [
            (&b""[..], Foreign::Empty),
            (lfs, Foreign::LfsPointer),
            (b"\n <!DOCTYPE html><html>", Foreign::WebPage),
            (b"<HTML>", Foreign::WebPage),
            (b"\x1f\x8b\x08\0", Foreign::Compressed("gzip")),
            (b"\xfd7zXZ\0\0", Foreign::Compressed("xz")),
            (b"\x28\xb5\x2f\xfd\0", Foreign::Compressed("zstd")),
            (&tar, Foreign::Archive("tar")),
            (b"7z\xbc\xaf\x27\x1c\0", Foreign::Archive("7z")),
            (b"fmgg\x65\0\0\0", Foreign::OtherModel("rwkv.cpp")),
            (b"\x08\x08\x12\x07pytorch\x1a\x05", Foreign::OtherModel("ONNX")),
            (b"\x1c\0\0\0TFL3\x14\0", Foreign::OtherModel("TensorFlow Lite")),
            (b"\x93NUMPY\x01\0", Foreign::Document("an array of NumPy")),
            (b"%PDF-1.7\n", Foreign::Document("a PDF")),
            (b"(\n    schema: 3,", Foreign::Plan),
            (b"Entry not found", Foreign::Text("Entry not found".into())),
            (b"\n{\"a\": 1}\n", Foreign::Text("{\"a\": 1}".into())),
            (b"\x01\x02\x03", Foreign::Bytes(vec![1, 2, 3])),
            (b"a\x1b[7m", Foreign::Bytes(b"a\x1b[7m".to_vec())),
            (b"\n\n", Foreign::Bytes(b"\n\n".to_vec())),
        ] {
            assert_eq!(Foreign::of(file), is);
        }
        for (is, says) in [
            (Foreign::Compressed("gzip"), "compressed with gzip: unpack it first"),
            (Foreign::Archive("tar"), "an archive (tar), not a model: unpack it, and name the model in it"),
            (
                Foreign::OtherModel("rwkv.cpp"),
                "a model for rwkv.cpp alone: take the .pth, .safetensors or GGUF file that it was made of",
            ),
            (Foreign::Document("a PDF"), "a PDF, not a model (GGUF, safetensors or a .pth)"),
        ] {
            assert_eq!(is.to_string(), says);
        }
    }
}
