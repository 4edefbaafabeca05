//! Configurations that are proposed from outside, by a person or another tool: measured at every site that they fit,
//! before what the search draws, and judged like any other.
//!
//! A file of them is a JSON list:
//! ```json
//! [{"op": "matmul", "variant": "gemv_fixed_grid_k", "k": 2560, "m": 65536, "formats": ["Q6_K_X8"], "rows": 1,
//!   "config": {"GRID": "SM", "LANES_PER_GROUP": 32, "ROWS": 1, "THREADS_PER_ROW": 32, "UNROLL": 1, "WG": 640}}]
//! ```
//! `op` and `variant` are names of the catalogue, `config` has a choice of each of the variant's tunables, as text or a
//! number. Sizes are optional: without them a seed is for every site of its op. `rows` means the bucket of token counts
//! that contains it.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use wgoose_graph::Format;
use wgoose_kernels::plan::{Choice, TuningKey};
use wgoose_kernels::{SpelledConfig, bucket};

/// A configuration that is proposed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// The op's name.
    pub op: String,
    /// The variant's name.
    pub variant: String,
    /// A choice of each of its tunables; in an experiment, of those that are not to be the baseline's or as near to
    /// their defaults as possible.
    #[serde(default, deserialize_with = "spelled")]
    pub config: SpelledConfig,
    /// Columns of the input; `None`: any.
    #[serde(default)]
    pub k: Option<u32>,
    /// Columns of the output; `None`: any.
    #[serde(default)]
    pub m: Option<u32>,
    /// Formats of the op's matrices, in operand order; `None`: any.
    #[serde(default)]
    pub formats: Option<Vec<Format>>,
    /// Rows of the output; `None`: any.
    #[serde(default)]
    pub rows: Option<u32>,
}

/// A choice as other tools write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Spelling {
    Text(String),
    Number(serde_json::Number),
}

fn spelled<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SpelledConfig, D::Error> {
    let config = BTreeMap::<String, Spelling>::deserialize(deserializer)?;
    let text = |spelling| match spelling {
        Spelling::Text(text) => text,
        Spelling::Number(number) => number.to_string(),
    };
    Ok(config.into_iter().map(|(name, spelling)| (name, text(spelling))).collect())
}

/// A file that has no seeds.
#[derive(Debug, thiserror::Error)]
pub enum SeedsError {
    /// It cannot be read.
    #[error("seeds {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not a list of seeds.
    #[error("seeds {}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: serde_json::Error,
    },
}

/// The seeds of a file, in its order.
///
/// # Errors
/// It cannot be read, or is not a list of seeds.
pub fn load(path: &Path) -> Result<Vec<Seed>, SeedsError> {
    let text = std::fs::read_to_string(path).map_err(|source| SeedsError::Io { path: path.to_owned(), source })?;
    serde_json::from_str(&text).map_err(|source| SeedsError::Json { path: path.to_owned(), source })
}

impl Seed {
    /// A variant at every site of its op, with no choice of its tunables.
    pub fn of_variant(op: &str, variant: &str) -> Self {
        let config = SpelledConfig::new();
        Seed { op: op.to_owned(), variant: variant.to_owned(), config, k: None, m: None, formats: None, rows: None }
    }

    /// What a plan has chosen.
    pub fn of(Choice { key, variant, config, .. }: &Choice) -> Self {
        let TuningKey { op, k, m, formats, up_to_rows } = key.clone();
        let (variant, config, formats) = (variant.clone(), config.clone(), Some(formats));
        Seed { op, variant, config, k: Some(k), m: Some(m), formats, rows: Some(up_to_rows) }
    }

    /// Whether it is for sites of this key.
    pub fn fits(&self, key: &TuningKey) -> bool {
        self.op == key.op
            && self.k.is_none_or(|k| k == key.k)
            && self.m.is_none_or(|m| m == key.m)
            && self.formats.as_ref().is_none_or(|formats| *formats == key.formats)
            && self.rows.is_none_or(|rows| bucket(rows) == key.up_to_rows)
    }
}

impl fmt::Display for Seed {
    /// `op/variant NAME=value ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.op, self.variant)?;
        self.config.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_seeds_is_read_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seeds.json");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            load(&path)
        };
        let all = read(
            r#"[{"op": "matmul", "variant": "naive", "config": {"WG": 64}},
                {"op": "a", "variant": "b", "config": {"x": "f32"}, "k": 1, "m": 2, "formats": ["Q6_K_X8"], "rows": 33}]"#,
        );
        let all = all.unwrap();
        assert_eq!(all[0].to_string(), "matmul/naive WG=64");
        let key = |rows| TuningKey { op: "a".into(), k: 1, m: 2, formats: vec![Format::Q6_K_X8], up_to_rows: rows };
        // 33 rows are in the bucket of 64.
        assert!(all[1].fits(&key(64)) && !all[1].fits(&key(1)) && !all[0].fits(&key(64)));
        for (text, place) in [
            ("{}", "line 1 column"),
            ("not json", "line 1 column"),
            ("[\n {\"op\": \"matmul\"}]", "missing field `variant` at line 2"),
            (r#"[{"op": "a", "variant": "b", "config": {}, "cols": 1}]"#, "unknown field `cols`"),
            (r#"[{"op": "a", "variant": "b", "config": {}, "formats": ["Q9"]}]"#, "line 1"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("seeds.json: ") && error.contains(place), "{error}");
        }
        assert!(matches!(load(Path::new("/nowhere/seeds.json")), Err(SeedsError::Io { .. })));
    }
}
