//! Which vocabulary a model has: its file's, a known one, a given one, or none.

use crate::support::{SHAPE, tiny_of};
use std::path::{Path, PathBuf};
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::Container;
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_session::tokenizer::Tokenizer;
use wgoose_session::{
    Backend, ConvertFileOptions, Model, ModelVocabularyError, Session, VocabularyChoice, convert_file,
};

/// A safetensors file, which has no vocabulary, of a model with `rows` tokens.
fn of_rows(folder: &Path, rows: u32) -> PathBuf {
    let ranks = LoraRanks { decay: 8, iclr: 8, value: 8, gate: 8 };
    let shape = ModelShape {
        layers: 1,
        width: 64,
        ffn: 64,
        head_size: 64,
        vocab: rows,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    let path = folder.join(format!("{rows}.st"));
    let (container, mix) = (Container::Safetensors, Mix::F16);
    let options = SynthOptions { shape, seed: 1, container, mix, hot: false, ffn_zeros: None, vocabulary: None };
    write(&options, &path, &mut unwatched).unwrap();
    path
}

/// The vocabulary of a model in a file, or why it has none.
fn vocabulary(path: &Path, choice: &VocabularyChoice) -> Result<usize, String> {
    let tokenizer = choice.tokenizer(&Model::open(path).unwrap());
    tokenizer.map(|tokenizer| tokenizer.len()).map_err(|why| why.to_string())
}

#[test]
fn a_vocabulary_is_known_or_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let find = |rows| vocabulary(&of_rows(folder.path(), rows), &VocabularyChoice::Find);
    assert_eq!(find(65_536), Ok(Tokenizer::world().len()));
    assert_eq!(find(256), Ok(256));
    for rows in [50_277, 50_304] {
        assert!(find(rows).unwrap_err().contains("models of the Pile"), "{rows}");
    }
    // One of a speech model, and one row more or fewer than the World's.
    for rows in [300, 65_535, 65_537, 77_900] {
        let why = find(rows).unwrap_err();
        assert!(why.contains(&rows.to_string()) && why.contains("--vocab FILE"), "{why}");
    }
}

#[test]
fn a_given_vocabulary_must_be_the_models() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let model = of_rows(folder, 300);
    let in_file = |text: &str| {
        let path = folder.join("vocabulary.txt");
        std::fs::write(&path, text).unwrap();
        vocabulary(&model, &VocabularyChoice::File(path))
    };
    let bytes: String = (0..=255).map(|byte| format!("{} b'\\x{byte:02x}' 1\n", byte + 1)).collect();
    assert_eq!(in_file(&bytes), Ok(257));
    assert!(in_file(&format!("{bytes}300 'goose' 5\n")).unwrap_err().contains("up to id 300, the model has 300"));
    assert!(in_file(&format!("{bytes}299 'goose' 4\n")).unwrap_err().contains("vocabulary line 257"));
    assert!(in_file("1 'a' 1\n").unwrap_err().contains("no token is the single byte"));
    let missing = vocabulary(&model, &VocabularyChoice::File(folder.join("missing.txt"))).unwrap_err();
    assert!(missing.contains("missing.txt"), "{missing}");
    assert_eq!(vocabulary(&model, &VocabularyChoice::World), Ok(300));

    // A wrong one is an error at once; a model without one runs by ids.
    let cpu = || Session::builder().backend(Backend::Cpu);
    let wrong = cpu().vocabulary(VocabularyChoice::File(folder.join("missing.txt"))).open(&model);
    assert!(wrong.is_err_and(|error| error.to_string().contains("missing.txt")));
    let mut session = cpu().open(&model).unwrap();
    assert!(session.tokenizer().unwrap_err().to_string().starts_with("this model can only be given token ids"));
    assert_eq!(session.logits(&[1, 299]).unwrap().len(), 600);
}

#[test]
fn a_converted_file_has_a_vocabulary_only_if_it_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = of_rows(folder, 300);
    let converted = |name: &str, vocabulary: VocabularyChoice| {
        let path = folder.join(name);
        let options = ConvertFileOptions { vocabulary, check: true, ..ConvertFileOptions::default() };
        let file = convert_file(&source, &path, &options, &mut unwatched).unwrap();
        (Model::open(&path).unwrap(), file.without_vocabulary)
    };
    let (model, why) = converted("none.gguf", VocabularyChoice::Find);
    assert_eq!(why, Some(ModelVocabularyError::Unknown(300)));
    assert!(model.vocabulary().is_none());
    let (model, why) = converted("world.gguf", VocabularyChoice::World);
    assert_eq!((model.vocabulary().unwrap().len(), why), (300, None));
}

#[test]
fn a_vocabulary_of_another_kind_takes_token_ids_only() {
    let model = tiny_of(SHAPE, 1, None);
    // The key's value has four letters in either case.
    let file = std::fs::read(&model.path).unwrap();
    let key = b"tokenizer.ggml.model";
    let at = file.windows(key.len()).position(|window| window == key).unwrap() + key.len() + 12;
    assert_eq!(&file[at..at + 4], b"rwkv");
    let mut other = file;
    other[at..at + 4].copy_from_slice(b"gpt2");
    std::fs::write(&model.path, other).unwrap();
    let why = vocabulary(&model.path, &VocabularyChoice::Find).unwrap_err();
    assert!(why.contains("'gpt2'"), "{why}");
}
