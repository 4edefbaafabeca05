//! Which adapter is to be merged.

use std::ffi::OsString;
use std::path::PathBuf;

/// An adapter to be merged, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterSource {
    /// The file, or a folder as `peft` saves it.
    pub path: PathBuf,
    /// The factor of what the adapter adds. `None`: alpha / rank of a LoRA whose alpha is known, 1 of all others.
    pub scale: Option<f32>,
    /// What the halves of a PiSSA were before it was trained: `init_pissa.pth`.
    pub initial: Option<PathBuf>,
}

impl AdapterSource {
    /// The adapter that `FILE` or `FILE:SCALE` names. What follows the last colon is a scale if it is a finite number.
    pub fn named(text: OsString) -> Self {
        let scaled = text.to_str().and_then(|text| {
            let (path, scale) = text.rsplit_once(':')?;
            let scale = scale.parse().ok().filter(|scale: &f32| scale.is_finite())?;
            (!path.is_empty()).then(|| (PathBuf::from(path), Some(scale)))
        });
        let (path, scale) = scaled.unwrap_or_else(|| (text.into(), None));
        AdapterSource { path, scale, initial: None }
    }

    /// The text that names it, but for the initial halves.
    pub fn spelled(&self) -> OsString {
        let mut text = self.path.clone().into_os_string();
        if let Some(scale) = self.scale {
            text.push(format!(":{scale}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_a_number_behind_the_last_colon() {
        for (text, path, scale) in [
            ("a.pth", "a.pth", None),
            ("a.pth:0.5", "a.pth", Some(0.5)),
            ("a.pth:-2", "a.pth", Some(-2.0)),
            (r"C:\a.pth", r"C:\a.pth", None),
            (r"C:\a.pth:2", r"C:\a.pth", Some(2.0)),
            ("a:nan", "a:nan", None),
            (":2", ":2", None),
            ("a:", "a:", None),
        ] {
            let wanted = AdapterSource { path: path.into(), scale, initial: None };
            assert_eq!(AdapterSource::named(text.into()), wanted);
            assert_eq!(wanted.spelled(), text);
        }
    }
}
