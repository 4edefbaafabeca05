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
    /// A plan, as `wgoose tune` writes it.
    Plan,
    /// Some other text; its first line, at most 60 characters.
    Text(String),
    /// Anything else; its first bytes, 16 at most.
    Bytes(Vec<u8>),
}

impl Foreign {
    /// What a file is that is of no [`Container`](crate::Container), by its bytes.
    pub(crate) fn of(file: &[u8]) -> Foreign {
        let start = &file[..file.len().min(512)];
        let text = start.trim_ascii_start();
        let begins =
            |with: &str| text.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with.as_bytes()));
        match start {
            [] => Foreign::Empty,
            [0x1f, 0x8b, ..] => Foreign::Compressed("gzip"),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Foreign::Compressed("zstd"),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Foreign::Compressed("xz"),
            [b'B', b'Z', b'h', ..] => Foreign::Compressed("bzip2"),
            _ if start.starts_with(b"version https://git-lfs") => Foreign::LfsPointer,
            _ if begins("<!doctype html") || begins("<html") => Foreign::WebPage,
            _ if begins("(") && text.windows(7).take(64).any(|part| part == b"schema:") => Foreign::Plan,
            _ => {
                match std::str::from_utf8(start).ok().and_then(|text| text.lines().find(|line| !line.trim().is_empty()))
                {
                    Some(line) if !line.contains(|c: char| c.is_control() && c != '\t') => {
                        Foreign::Text(line.chars().take(60).collect())
                    }
                    _ => Foreign::Bytes(start[..start.len().min(16)].to_vec()),
                }
            }
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
    fn what_people_have_instead_is_told() {
        let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
        for (file, is) in [
            (&b""[..], Foreign::Empty),
            (lfs, Foreign::LfsPointer),
            (b"\n <!DOCTYPE html><html>", Foreign::WebPage),
            (b"<HTML>", Foreign::WebPage),
            (b"\x1f\x8b\x08\0", Foreign::Compressed("gzip")),
            (b"(\n    schema: 3,", Foreign::Plan),
            (b"Entry not found", Foreign::Text("Entry not found".into())),
            (b"\n{\"a\": 1}\n", Foreign::Text("{\"a\": 1}".into())),
            (b"\x01\x02\x03", Foreign::Bytes(vec![1, 2, 3])),
            (b"a\x1b[7m", Foreign::Bytes(b"a\x1b[7m".to_vec())),
            (b"\n\n", Foreign::Bytes(b"\n\n".to_vec())),
        ] {
            assert_eq!(Foreign::of(file), is);
        }
        assert!(Foreign::Compressed("gzip").to_string().contains("gzip: unpack"));
    }
}
