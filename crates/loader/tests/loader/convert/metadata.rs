//! Metadata of a GGUF file: kept, made up where there is none, set.

use crate::convert::{Place, options, to};
use std::collections::BTreeMap;
use wgoose_graph::{Format, Weight};
use wgoose_loader::convert::{ConvertError, ConvertOptions, convert, file_bytes};
use wgoose_loader::writer::{ChosenFormats, Mix, WriteError, unwatched};
use wgoose_loader::{Container, Model};

/// The metadata of a GGUF file: type and bytes of each value.
fn metadata(file: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
    let u32_at = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    fn end(file: &[u8], kind: u32, at: usize) -> usize {
        let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
        match kind {
            0 | 1 | 7 => at + 1,
            2 | 3 => at + 2,
            4..=6 => at + 4,
            8 => at + 8 + u64_at(at),
            9 => {
                let kind = u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
                (0..u64_at(at + 4)).fold(at + 12, |at, _| end(file, kind, at))
            }
            _ => at + 8,
        }
    }
    let mut at = 24;
    let pair = |_| {
        let name = at + 8..at + 8 + u64_at(at);
        let kind = u32_at(name.end);
        let value = name.end + 4..end(file, kind, name.end + 4);
        at = value.end;
        (String::from_utf8(file[name].to_vec()).unwrap(), (kind, file[value].to_vec()))
    };
    (0..u64_at(16)).map(pair).collect()
}

fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text].concat()
}

fn array(kind: u32, values: &[Vec<u8>]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(values.len() as u64).to_le_bytes(), &values.concat()].concat()
}

/// A synthetic GGUF file that says more of itself: values of every type, and arrays of every type.
fn eloquent(place: &Place, mix: Mix) -> Vec<u8> {
    place.synth("plain.gguf", &options(Container::Gguf, mix));
    let mut file = std::fs::read(place.path("plain.gguf")).unwrap();
    let mut pairs: Vec<(String, u32, Vec<u8>)> = vec![
        ("general.license".into(), 8, string(b"Apache-2.0")),
        ("general.tags".into(), 9, array(8, &[string(b"text-generation"), string(b""), string("\u{9d5d}".as_bytes())])),
        ("general.alignment".into(), 4, 32_u32.to_le_bytes().into()),
        ("split.count".into(), 2, vec![0, 0]),
        ("tokenizer.ggml.scores".into(), 9, array(6, &vec![0.5_f32.to_le_bytes().into(); 1101])),
        ("other.no_utf8".into(), 8, string(b"\xff\xfe")),
        ("other.nested".into(), 9, array(9, &[array(5, &[vec![1; 4]]), array(8, &[string(b"deep")])])),
    ];
    for (kind, bytes) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (6, 4), (7, 1), (10, 8), (11, 8), (12, 8)] {
        pairs.push((format!("other.of_type_{kind}"), kind, vec![1; bytes]));
        pairs.push((format!("other.array_of_type_{kind}"), 9, array(kind, &[vec![1; bytes], vec![0; bytes]])));
    }
    let mut more: Vec<u8> = Vec::new();
    // What follows must stay aligned.
    let long = |len: usize| string(&vec![b'x'; len.next_multiple_of(32) - len]);
    for (key, kind, value) in &pairs {
        more.extend([string(key.as_bytes()), kind.to_le_bytes().into(), value.clone()].concat());
    }
    let padding = [string(b"other.padding"), 8_u32.to_le_bytes().into()].concat();
    let padding = [padding.clone(), long(more.len() + padding.len() + 8)].concat();
    more.extend(padding);
    let count = u64::from_le_bytes(file[16..24].try_into().unwrap()) + pairs.len() as u64 + 1;
    file[16..24].copy_from_slice(&count.to_le_bytes());
    file.splice(24..24, more);
    for (key, value) in
        [("rwkv7.context_length", 4096_u32.to_le_bytes()), ("tokenizer.ggml.eos_token_id", [1, 0, 0, 0])]
    {
        let at = file.windows(key.len()).position(|window| window == key.as_bytes()).unwrap() + key.len() + 4;
        file[at..at + 4].copy_from_slice(&value);
    }
    std::fs::write(place.path("eloquent.gguf"), &file).unwrap();
    file
}

#[test]
fn a_gguf_file_keeps_its_metadata() {
    for (from, mix) in [(Mix::F16, Mix::Q4_K_M), (Mix::Q8_0, Mix::F32), (Mix::F16, Mix::F16)] {
        let place = Place::new();
        let mut wanted = metadata(&eloquent(&place, from));
        let source = Model::open(place.path("eloquent.gguf")).unwrap();
        place.convert(&source, "copy.gguf", Container::Gguf, mix).unwrap();
        let file_type: u32 = match mix {
            Mix::F32 => 0,
            Mix::F16 => 1,
            _ => 15,
        };
        wanted.insert("general.file_type".into(), (4, file_type.to_le_bytes().into()));
        if mix.is_quantised() {
            wanted.insert("general.quantization_version".into(), (4, 2_u32.to_le_bytes().into()));
        }
        assert!(wanted.remove("general.alignment").is_some() && wanted.remove("split.count").is_some());
        let found = metadata(&std::fs::read(place.path("copy.gguf")).unwrap());
        assert!(found.keys().eq(wanted.keys()), "{from} to {mix}: {:?}", found.keys());
        for (key, value) in found {
            assert!(value == wanted[&key], "{key} of {from} to {mix}: {value:?}");
        }
    }
}

#[test]
fn a_file_without_metadata_gets_the_keys_llama_cpp_requires() {
    let place = Place::new();
    let source = place.synth("source.st", &options(Container::Safetensors, Mix::F16));
    let world = (0..1101).map(|id| if id == 261 { b"\n\n".to_vec() } else { vec![1, id as u8] }).collect();
    let with_turns = ConvertOptions { vocabulary: Some(world), ..to(Container::Gguf, Mix::Q4_K_M) };
    convert(&source, &with_turns, &place.path("turns.gguf"), &mut unwatched).unwrap();
    let turns = metadata(&std::fs::read(place.path("turns.gguf")).unwrap());
    let text = |key: &str| String::from_utf8(turns[key].1[8..].to_vec()).unwrap();
    let number = |key: &str| u32::from_le_bytes(turns[key].1[..].try_into().unwrap());
    assert_eq!((text("general.type"), text("general.name")), ("model".into(), "a goose".into()));
    assert_eq!(text("general.size_label"), "2.0M");
    assert_eq!((number("general.file_type"), number("general.quantization_version")), (15, 2));
    assert_eq!((number("tokenizer.ggml.bos_token_id"), number("tokenizer.ggml.eos_token_id")), (0, 0));
    assert_eq!(number("tokenizer.ggml.eot_token_id"), 261);
    let template = text("tokenizer.chat_template");
    assert!(template.contains("rwkv-world") && template.contains("'Assistant:'"), "{template}");

    // Without a token for an empty line there is no end of a turn, and no chat.
    place.convert(&source, "bytes.gguf", Container::Gguf, Mix::F16).unwrap();
    let bytes = metadata(&std::fs::read(place.path("bytes.gguf")).unwrap());
    for key in ["tokenizer.ggml.eot_token_id", "tokenizer.chat_template", "general.quantization_version"] {
        assert!(!bytes.contains_key(key), "{key}");
    }
}

/// Files of wgoose and of llama.cpp's converter once had the name of the template alone.
#[test]
fn the_name_of_a_template_becomes_its_text() {
    let place = Place::new();
    let mut named = options(Container::Gguf, Mix::F16);
    named.vocabulary.as_mut().unwrap()[261] = b"\n\n".to_vec();
    let text =
        |name: &str| metadata(&std::fs::read(place.path(name)).unwrap())["tokenizer.chat_template"].1[8..].to_vec();
    let source = place.synth("source.gguf", &named);
    let name = ConvertOptions {
        set: vec!["tokenizer.chat_template=rwkv-world".parse().unwrap()],
        ..to(Container::Gguf, Mix::F16)
    };
    convert(&source, &name, &place.path("named.gguf"), &mut unwatched).unwrap();
    assert_eq!(text("named.gguf"), b"rwkv-world");
    let source = Model::open(place.path("named.gguf")).unwrap();
    place.convert(&source, "text.gguf", Container::Gguf, Mix::F16).unwrap();
    assert_eq!(text("text.gguf"), text("source.gguf"));
}

#[test]
fn metadata_is_set_in_the_type_that_is_there() {
    let place = Place::new();
    eloquent(&place, Mix::F16);
    let source = Model::open(place.path("eloquent.gguf")).unwrap();
    let setting = |text: &str| ConvertOptions { set: vec![text.parse().unwrap()], ..to(Container::Gguf, Mix::F16) };
    let settings = ["general.license=MIT", "general.url=a=b", "other.of_type_11=-2", "rwkv7.context_length=8192"];
    let set = settings.map(|text| text.parse().unwrap()).into();
    convert(&source, &ConvertOptions { set, ..setting("a.b=c") }, &place.path("set.gguf"), &mut unwatched).unwrap();
    let found = metadata(&std::fs::read(place.path("set.gguf")).unwrap());
    for (key, kind, value) in [
        ("general.license", 8, string(b"MIT")),
        ("general.url", 8, string(b"a=b")),
        ("other.of_type_11", 11, (-2_i64).to_le_bytes().into()),
        ("rwkv7.context_length", 4, 8192_u32.to_le_bytes().into()),
    ] {
        assert_eq!(found[key], (kind, value), "{key}");
    }
    assert_eq!(Model::open(place.path("set.gguf")).unwrap().about().licence.as_deref(), Some("MIT"));

    for (text, why) in [
        ("general.architecture=rwkv6", "key 'general.architecture' is as the tensors are: it cannot be set"),
        ("general.alignment=64", "key 'general.alignment' is as the tensors are: it cannot be set"),
        ("rwkv7.block_count=3", "key 'rwkv7.block_count' is as the tensors are: it cannot be set"),
        ("general.tags=one", "key 'general.tags' holds an array: it cannot be set to 'one'"),
        ("other.of_type_0=256", "key 'other.of_type_0' holds a whole number, 0 or greater: it cannot be set to '256'"),
    ] {
        let error = convert(&source, &setting(text), &place.path("no.gguf"), &mut unwatched).unwrap_err();
        assert_eq!(error.to_string(), why);
    }
    let floats = ConvertOptions { container: Container::Safetensors, ..setting("general.license=MIT") };
    let error = convert(&source, &floats, &place.path("no.st"), &mut unwatched).unwrap_err();
    assert!(matches!(error, ConvertError::Write(WriteError::NoMetadata)), "{error}");
    assert_eq!(place.files(), 3);
}

#[test]
fn formats_chosen_weight_by_weight_are_written_and_measured_once() {
    let place = Place::new();
    let source = place.synth("source.st", &options(Container::Safetensors, Mix::F16));
    let head = BTreeMap::from([(Weight::Head, Format::Q5_K)]);
    let chosen = Some(ChosenFormats { formats: head, kl: 0.25 });
    let mixed = ConvertOptions { chosen, ..to(Container::Gguf, Mix::Q4_K_M) };
    convert(&source, &mixed, &place.path("mixed.gguf"), &mut unwatched).unwrap();
    let written = Model::open(place.path("mixed.gguf")).unwrap();
    assert_eq!(file_bytes(&source, &mixed).unwrap(), written.file_len() as u64);
    assert_eq!(written.tensor(Weight::Head).format(), Format::Q5_K);
    assert_eq!(written.tensor(Weight::Embedding).format(), Format::Q4_K, "the mix has the others");
    let key = "wgoose.quantize.kl_divergence";
    let found = |name: &str| metadata(&std::fs::read(place.path(name)).unwrap());
    assert_eq!(found("mixed.gguf")[key], (6, 0.25f32.to_le_bytes().into()));

    // It is not true of what is made of that file.
    place.convert(&written, "again.gguf", Container::Gguf, Mix::Q4_0).unwrap();
    assert!(!found("again.gguf").contains_key(key));

    let floats = ConvertOptions { container: Container::Safetensors, ..mixed };
    let error = convert(&source, &floats, &place.path("no.st"), &mut unwatched).unwrap_err();
    assert!(matches!(error, ConvertError::Write(WriteError::OneFormat)), "{error}");
}
