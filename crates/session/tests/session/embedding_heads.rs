//! Embedding models against PyPI's `rwkv-emb` (`oracle/embedding_golden.py`), alone, together and from a cache.

use crate::support::tiny;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize_to_file};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_loader::{Container, EmbeddingHead};
use wgoose_runtime::{BatchError, RuntimeError};
use wgoose_session::{
    Backend, CancelToken, END_OF_TEXT, EmbedOptions, EmbeddingCacheOptions, Level, Pooling, Session, SessionBuilder,
    SessionError,
};

/// That of the model which the reference has embedded with.
const BODY: SynthOptions = SynthOptions {
    shape: ModelShape {
        layers: 2,
        width: 64,
        ffn: 128,
        head_size: 64,
        vocab: 65_536,
        ranks: LoraRanks { decay: 32, iclr: 24, value: 16, gate: 48 },
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    },
    seed: 12,
    container: Container::Safetensors,
    mix: Mix::F16,
    hot: false,
    ffn_zeros: None,
    vocabulary: None,
};

/// Texts and embeddings of the reference.
struct Golden {
    file: Vec<u8>,
}

impl Golden {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracle/goldens/embedding/heads.safetensors");
        Golden { file: std::fs::read(path).unwrap() }
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.file).unwrap()
    }

    fn words<T>(&self, name: &str, decode: fn([u8; 4]) -> T) -> Vec<T> {
        let tensors = self.tensors();
        let words = tensors.tensor(name).unwrap().data().chunks_exact(4);
        words.map(|word| decode(word.try_into().unwrap())).collect()
    }

    fn texts(&self) -> Vec<Vec<u32>> {
        let mut tokens = self.words("tokens", u32::from_le_bytes);
        let lengths = self.words("lengths", u32::from_le_bytes).into_iter();
        lengths.map(|length| tokens.drain(..length as usize).collect()).collect()
    }

    /// The embedding of each text by a head.
    fn embeddings(&self, head: EmbeddingHead) -> Vec<Vec<f32>> {
        let all = self.words(head.name(), f32::from_le_bytes);
        all.chunks(BODY.shape.width as usize).map(<[f32]>::to_vec).collect()
    }

    /// The model, as training saves it: the body with a prefix and without an output head, and the heads beside it.
    fn model(&self, folder: &TempDir) -> PathBuf {
        let [body, model] = ["body.st", "model.st"].map(|name| folder.path().join(name));
        write(&BODY, &body, &mut unwatched).unwrap();
        let body = std::fs::read(body).unwrap();
        let (_, header) = SafeTensors::read_metadata(&self.file).unwrap();
        let expected = &header.metadata().as_ref().unwrap()["blake3"];
        assert_eq!(&blake3::hash(&body).to_hex().to_string(), expected, "another body than the reference's");
        let (weights, heads) = (SafeTensors::deserialize(&body).unwrap(), self.tensors());
        let weights = weights.iter().filter(|(name, _)| *name != "head.weight");
        let heads = heads.iter().filter(|(name, view)| name.starts_with("head.") && view.dtype() == Dtype::F16);
        let tensors: Vec<(String, TensorView<'_>)> = weights
            .map(|(name, view)| (format!("rwkv.{name}"), view))
            .chain(heads.map(|(name, view)| (name.to_owned(), view)))
            .collect();
        serialize_to_file(tensors, None, &model).unwrap();
        model
    }
}

fn on_cpu() -> SessionBuilder {
    Session::builder().backend(Backend::Cpu)
}

fn options(head: EmbeddingHead) -> EmbedOptions {
    EmbedOptions { pooling: Pooling::Head(head), normalise: false, ..EmbedOptions::default() }
}

/// The largest difference.
fn difference(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).map(|(got, want)| (got - want).abs()).fold(0.0, f32::max)
}

#[test]
fn heads_agree_with_the_reference_alone_in_batches_and_cached() {
    let (golden, folder) = (Golden::read(), tempfile::tempdir().unwrap());
    let path = golden.model(&folder);
    let mut session = on_cpu().open(&path).unwrap();
    let mut caching = on_cpu().embedding_cache(Some(EmbeddingCacheOptions::default())).open(&path).unwrap();
    let texts = golden.texts();
    let mut distinct: Vec<Vec<f32>> = Vec::new();
    for head in EmbeddingHead::ALL {
        let together = session.embed_batch(&texts, &options(head), &CancelToken::default()).unwrap();
        for (i, want) in golden.embeddings(head).iter().enumerate() {
            let alone = session.embed(&texts[i], &options(head)).unwrap();
            assert!(difference(&alone, want) < 2e-5, "{head}, text {i}: {}", difference(&alone, want));
            assert_eq!(alone, together[i], "{head}, text {i}");
            let ended = [&texts[i][..], &[END_OF_TEXT]].concat();
            assert_eq!(session.embed(&ended, &options(head)).unwrap(), alone, "{head}, text {i} with its end");
        }
        // A head does not answer for another one.
        for _ in 0..2 {
            assert_eq!(
                caching.embed_batch(&texts, &options(head), &CancelToken::default()).unwrap(),
                together,
                "{head}"
            );
        }
        assert!(!distinct.contains(&together[1]));
        distinct.push(together[1].clone());
    }
    assert_eq!(caching.embedding_stats().unwrap().hits, 3 * texts.len() as u64);
    assert_eq!(EmbedOptions::of(session.model()).pooling, Pooling::Head(EmbeddingHead::Retr));
    let fork = session.fork().unwrap().embed(&texts[1], &options(EmbeddingHead::Cls)).unwrap();
    assert_eq!(fork, distinct[0]);
}

#[test]
fn a_model_that_only_embeds_says_so() {
    let (golden, folder) = (Golden::read(), tempfile::tempdir().unwrap());
    let mut session = on_cpu().open(golden.model(&folder)).unwrap();
    for refused in
        [session.prefill(&[1, 2]).map(drop), session.decode(1).map(drop), session.state_after(&[1]).map(drop)]
    {
        let error = refused.unwrap_err();
        assert!(matches!(error, SessionError::Runtime(RuntimeError::Batch(BatchError::NoOutputHead))), "{error}");
    }
    let layer = EmbedOptions { level: Level::Layer(0), ..options(EmbeddingHead::Sts) };
    assert!(matches!(session.embed(&[1], &layer).unwrap_err(), SessionError::HeadLevel));
    let mean = EmbedOptions { level: Level::Layer(0), ..EmbedOptions::default() };
    assert_eq!(session.embed(&[1], &mean).unwrap().len(), 64);
    let inside = session
        .embed_batch(&[vec![1], vec![2, END_OF_TEXT, 3]], &options(EmbeddingHead::Sts), &CancelToken::default())
        .unwrap_err();
    assert!(matches!(inside, SessionError::EndInText { text: 1, position: 1 }), "{inside}");
    let empty = session.embed(&[], &options(EmbeddingHead::Sts)).unwrap_err();
    assert!(matches!(empty, SessionError::Runtime(RuntimeError::Batch(BatchError::Empty(0)))), "{empty}");
}

#[test]
fn a_head_that_a_model_lacks_is_refused_by_name() {
    let mut session = on_cpu().open(&tiny(1).path).unwrap();
    let error = session.embed(&[1, 2], &options(EmbeddingHead::Retr)).unwrap_err();
    assert_eq!(error.to_string(), "this model has no embedding head 'retr': it has none, so leave the head out");
    assert_eq!(EmbedOptions::of(session.model()), EmbedOptions::default());
}
