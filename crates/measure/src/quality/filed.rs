//! References in files. They say what is right, so a file is not believed: it has a hash of its content, and what it
//! holds is held against the model and the prompts, number by number where that is cheap. Whatever is wrong with it, it
//! is made again.

use super::{
    BEST, CONTINUATION, LEAST_CERTIFIED, PROMPTS, QualityError, Ranking, Reference, Rounding, id, probed, prompts,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wgoose_kernels::PrecisionClass;
use wgoose_loader::Model;
use wgoose_runtime::CancelToken;

/// What stands in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filed<R> {
    /// Of the reference's JSON as it is written.
    hash: String,
    reference: R,
}

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("it is no reference: {0}")]
    Json(#[from] serde_json::Error),
    #[error("its content does not match its hash: it was damaged or edited")]
    Hash,
    #[error("it is of another model or other prompts")]
    Id,
    #[error("it does not fit the model: {0}")]
    Content(&'static str),
}

impl Reference {
    /// As [`Reference::compute`], keeping the result in a file of `folder`; a file that is not right in everything is
    /// made again, which is said as a warning.
    ///
    /// # Errors
    /// As [`Reference::compute`], or the folder cannot be written.
    pub fn cached(model: &Arc<Model>, folder: &Path, cancel: &CancelToken) -> Result<Reference, QualityError> {
        let (id, path) = (id(model), path(model, folder));
        let filed = read::<Reference>(&path).and_then(|filed| filed.check(&id, model).map(|()| filed));
        or_made(filed, &path, || Reference::compute(model, cancel))
    }

    /// That it is one of a model of that shape, as far as can be seen without running it.
    fn check(&self, id: &str, model: &Model) -> Result<(), Unusable> {
        let shape = model.shape();
        let holds = |is_so: bool, what| if is_so { Ok(()) } else { Err(Unusable::Content(what)) };
        if self.id != id {
            return Err(Unusable::Id);
        }
        holds(self.rounding == Rounding::of(model), "what decides its rounding")?;
        let is_token = |token: &u32| *token < shape.vocab;
        let prompts = prompts(shape);
        holds(self.sequences.len() == PROMPTS.len(), "the number of sequences")?;
        holds(self.rankings.len() == PROMPTS.len(), "the number of rankings")?;
        for ((prompt, sequence), rankings) in prompts.iter().zip(&self.sequences).zip(&self.rankings) {
            holds(sequence.len() == prompt.len() + CONTINUATION, "the length of a sequence")?;
            holds(sequence.starts_with(prompt) && sequence.iter().all(is_token), "the tokens of a sequence")?;
            holds(rankings.len() == sequence.len(), "the rankings of a sequence")?;
            for Ranking { tokens, gaps } in rankings {
                let count = BEST.min(shape.vocab as usize);
                holds(tokens.len() == count && gaps.len() + 1 == count, "the length of a ranking")?;
                holds(tokens.iter().all(is_token), "the tokens of a ranking")?;
                holds(gaps.iter().all(|gap| *gap >= 0.0), "the distances of a ranking")?;
            }
        }
        holds(self.probes.iter().map(|(i, t, _)| (*i, *t)).eq(probed()), "the positions of its logits")?;
        for (i, t, row) in &self.probes {
            holds(row.len() == shape.vocab as usize, "the number of its logits")?;
            holds(row.iter().all(|logit| logit.is_finite()), "a logit is not finite")?;
            holds(Ranking::of(row) == self.rankings[*i][*t], "a ranking is not that of its logits")?;
        }
        let is_certified = self.expected(PrecisionClass::default()).certified.0 >= LEAST_CERTIFIED;
        holds(is_certified, "too few positions are certified")
    }
}

fn path(model: &Model, folder: &Path) -> PathBuf {
    folder.join(format!("reference-{}.json", &id(model)[..16]))
}

/// What a file holds, or what is made in its place and kept there; why it is made is said as a warning, unless there is
/// no file.
pub(super) fn or_made<R: Serialize>(
    filed: Result<R, Unusable>,
    path: &Path,
    make: impl FnOnce() -> Result<R, QualityError>,
) -> Result<R, QualityError> {
    match filed {
        Ok(filed) => return Ok(filed),
        Err(Unusable::Io(e)) if e.kind() == ErrorKind::NotFound => {}
        Err(why) => tracing::warn!("{}: the quality reference is computed again: {why}", path.display()),
    }
    let made = make()?;
    let fail = |why: std::io::Error| QualityError::Cache { path: path.display().to_string(), why: why.to_string() };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(fail)?;
    }
    write(path, &made).map_err(fail)?;
    Ok(made)
}

/// What a file holds, if it has the hash that it says.
pub(super) fn read<R: Serialize + DeserializeOwned>(path: &Path) -> Result<R, Unusable> {
    let Filed::<R> { hash: promised, reference } = serde_json::from_slice(&wgoose_files::read(path)?)?;
    if hash(&reference)? == promised { Ok(reference) } else { Err(Unusable::Hash) }
}

/// Two sweeps may make it at once.
pub(super) fn write<R: Serialize>(path: &Path, reference: &R) -> std::io::Result<()> {
    let text = serde_json::to_vec(&Filed { hash: hash(reference)?, reference })?;
    wgoose_files::replace(path, |file| file.write_all(&text)).map(drop)
}

fn hash<R: Serialize>(reference: &R) -> Result<String, serde_json::Error> {
    Ok(blake3::hash(&serde_json::to_vec(reference)?).to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::small::model;

    type Edit = (&'static str, fn(&mut Reference));

    /// By someone who knows how to make a hash.
    const EDITS: [Edit; 18] = [
        ("another model", |r| r.id.push('0')),
        ("number of sequences", |r| r.sequences.clear()),
        ("number of sequences", |r| drop(r.sequences.pop())),
        ("length of a sequence", |r| r.sequences[1].truncate(1)),
        ("tokens of a sequence", |r| r.sequences[0][0] += 1),
        ("tokens of a sequence", |r| *r.sequences[0].last_mut().unwrap() = 40),
        ("number of rankings", |r| r.rankings.clear()),
        ("rankings of a sequence", |r| r.rankings[2].clear()),
        ("length of a ranking", |r| r.rankings[0][1].tokens.clear()),
        ("length of a ranking", |r| r.rankings[0][1].gaps.clear()),
        ("distances of a ranking", |r| r.rankings[0][1].gaps[3] = -1.0),
        ("decides its rounding", |r| r.rounding.layers = 9),
        ("tokens of a ranking", |r| r.rankings[0][1].tokens[3] = 40),
        ("positions of its logits", |r| r.probes.clear()),
        ("positions of its logits", |r| r.probes[0].0 = 9),
        ("number of its logits", |r| r.probes[3].2.clear()),
        ("not that of its logits", |r| r.probes[3].2.reverse()),
        ("no reference", |r| r.probes[3].2[0] = f32::NAN),
    ];

    #[test]
    fn an_edited_file_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let (model, cache) = (model(folder.path()), folder.path().join("cache"));
        let reference = Reference::cached(&model, &cache, &CancelToken::default()).unwrap();
        assert!(
            reference.expected(PrecisionClass::default()).certified.0 > 10
                && reference == Reference::compute(&model, &CancelToken::default()).unwrap()
        );
        let path = path(&model, &cache);
        let whole = std::fs::read(&path).unwrap();
        let found = || read::<Reference>(&path).and_then(|filed| filed.check(&reference.id, &model).map(|()| filed));
        assert_eq!(found().unwrap(), reference);
        for (why, edit) in EDITS {
            let mut edited = reference.clone();
            edit(&mut edited);
            write(&path, &edited).unwrap();
            let refused = found().unwrap_err().to_string();
            assert!(refused.contains(why), "{why}: {refused}");
            assert_eq!(Reference::cached(&model, &cache, &CancelToken::default()).unwrap(), reference, "{why}");
            assert!(std::fs::read(&path).unwrap() == whole, "{why}");
        }
        // A disarmed one: nothing is certain, and no logit contradicts it.
        let mut edited = reference.clone();
        edited.rankings.iter_mut().flatten().for_each(|r| r.gaps.fill(0.0));
        edited.probes.iter_mut().for_each(|(_, _, row)| row.fill(0.0));
        write(&path, &edited).unwrap();
        assert_eq!(Reference::cached(&model, &cache, &CancelToken::default()).unwrap(), reference);
    }

    #[test]
    fn a_cancelled_reference_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let (model, cache) = (model(folder.path()), folder.path().join("cache"));
        let cancel = CancelToken::default();
        cancel.cancel();
        let ended = Reference::cached(&model, &cache, &cancel).unwrap_err();
        assert!(matches!(ended, QualityError::Runtime(wgoose_runtime::RuntimeError::Cancelled)), "{ended}");
        assert!(!path(&model, &cache).exists());
    }

    #[test]
    fn a_damaged_file_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let (model, cache) = (model(folder.path()), folder.path().join("cache"));
        let reference = Reference::cached(&model, &cache, &CancelToken::default()).unwrap();
        let path = path(&model, &cache);
        let whole = std::fs::read(&path).unwrap();
        let digits = whole.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit()).map(|(at, _)| at);
        for at in digits.step_by(whole.len() / 50) {
            let mut damaged = whole.clone();
            damaged[at] = if damaged[at] == b'1' { b'2' } else { b'1' };
            std::fs::write(&path, &damaged).unwrap();
            match read::<Reference>(&path).and_then(|filed| filed.check(&reference.id, &model).map(|()| filed)) {
                // Digits beyond a float's.
                Ok(same) => assert_eq!(same, reference, "byte {at}"),
                Err(_) => assert_eq!(
                    Reference::cached(&model, &cache, &CancelToken::default()).unwrap(),
                    reference,
                    "byte {at}"
                ),
            }
        }
        for text in [&b""[..], b"{}", &whole[..whole.len() / 2]] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Reference::cached(&model, &cache, &CancelToken::default()).unwrap(), reference);
        }
    }
}
