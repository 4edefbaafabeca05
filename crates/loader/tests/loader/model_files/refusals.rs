//! Everything that is wrong with a file has a typed answer.

use crate::model_files::support::gguf::{Gguf, Value};
use crate::model_files::support::pth::{self, Program, Style, Zip};
use crate::model_files::support::{TINY, Tensor, checkpoint, named, open, safetensors};
use std::fmt::Debug;
use wgoose_graph::{Format, ShapeError};
use wgoose_loader::{
    ArchiveError, DirectoryError, Foreign, GgufError, LoadError, Model, OtherRwkv, PickleError, PthError,
    SafetensorsError, ShardError,
};

/// Asserts that opening fails with a pattern, and that the message says certain things.
macro_rules! refused {
    ($file:expr, $pattern:pat $(if $guard:expr)?, $($says:expr),+) => {{
        let error = open(&$file[..]).map(|_| ()).unwrap_err();
        assert!(matches!(&error, $pattern $(if $guard)?), "{error:?}");
        $(assert!(error.to_string().contains($says), "'{error}' says nothing of '{}'", $says);)+
    }};
}

fn gguf(change: impl FnOnce(&mut Gguf)) -> Vec<u8> {
    let mut file = Gguf::of(&TINY);
    change(&mut file);
    file.write()
}

/// A model in safetensors with one tensor changed.
fn altered(name: &str, change: impl FnOnce(&mut Tensor)) -> Vec<u8> {
    let mut tensors = checkpoint(&TINY, Format::F16, false);
    change(named(&mut tensors, name));
    safetensors::write(&tensors)
}

fn without(name: &str) -> Vec<u8> {
    let mut tensors = checkpoint(&TINY, Format::F16, false);
    tensors.retain(|t| t.name != name);
    safetensors::write(&tensors)
}

fn resize(dims: &'static [usize]) -> impl FnOnce(&mut Tensor) {
    move |t| {
        t.dims = dims.to_vec();
        t.bytes.resize(t.format.block_bytes() * dims.iter().product::<usize>(), 0);
    }
}

#[test]
fn missing_and_foreign_files_are_refused() {
    let missing = Model::open("no/such/file").map(|_| ()).unwrap_err();
    assert!(matches!(missing, LoadError::Io { .. }) && missing.to_string().contains("no/such/file"));
    let folder = Model::open(env!("CARGO_MANIFEST_DIR")).map(|_| ()).unwrap_err();
    assert!(matches!(folder.into_reason(), LoadError::Shards(ShardError::NoModel)));
    refused!(b"", LoadError::UnknownContainer(Foreign::Empty), "empty");
    refused!(b"hello, world", LoadError::UnknownContainer(Foreign::Text(_)), "'hello, world'");
    refused!(b"hello\0world", LoadError::UnknownContainer(Foreign::Bytes(_)), "68, 65");
    for protocol in [3, 4, 5] {
        refused!([0x80, protocol, b'}', b'.'], LoadError::LegacyTorch, "save it again");
    }
    refused!(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", LoadError::LegacyTorch, "save it again");
}

#[test]
fn incomplete_models() {
    refused!(without("emb.weight"), LoadError::MissingTensor { .. }, "'emb.weight'");
    refused!(without("blocks.2.att.x_a"), LoadError::MissingTensor { .. }, "'blocks.2.att.x_a'");
    refused!(without("blocks.1.ln2.bias"), LoadError::MissingTensor { .. }, "'blocks.1.ln2.bias'");
    let mut gap = checkpoint(&TINY, Format::F16, false);
    gap.iter_mut().for_each(|t| t.name = t.name.replace("blocks.2.", "blocks.7."));
    refused!(safetensors::write(&gap), LoadError::MissingTensor { .. }, "'blocks.2.ln1.weight'");
    let missing = gguf(|file| file.tensors.retain(|t| t.name != "output_norm.bias"));
    refused!(missing, LoadError::MissingTensor { .. }, "'output_norm.bias'");
    refused!(safetensors::write(&[]), LoadError::MissingTensor { .. }, "'emb.weight'");
}

#[test]
fn other_versions_of_rwkv_are_named() {
    // A weight of the attention has the name that the version has for one of its own.
    for (version, own, says) in [
        (
            OtherRwkv::V4,
            "att.time_first",
            "a model of RWKV-4 (it has 'blocks.0.att.time_first'), which does not run here",
        ),
        (
            OtherRwkv::V5,
            "att.time_faaaa",
            "a model of RWKV-5 (it has 'blocks.0.att.time_faaaa'), which does not run here",
        ),
        (
            OtherRwkv::V6,
            "att.time_maa_x",
            "a model of RWKV-6 (it has 'blocks.0.att.time_maa_x'), which does not run here",
        ),
        (OtherRwkv::V8, "rosa.x_q", "a model of RWKV-8 (it has 'blocks.0.rosa.x_q'), which does not run here"),
    ] {
        let mut tensors = checkpoint(&TINY, Format::F16, false);
        tensors.iter_mut().for_each(|tensor| tensor.name = tensor.name.replace("att.x_r", own));
        for file in [safetensors::write(&tensors), pth::write(&tensors, Style::Plain)] {
            refused!(file, LoadError::OtherRwkv { version: found, .. } if *found == version, says);
        }
    }
}

#[test]
fn wrong_shapes() {
    // Ranks are those of the first layers: every other layer must agree.
    refused!(altered("blocks.2.att.w1", resize(&[4, 64])), LoadError::WrongShape { .. }, "'blocks.2.att.w1'", "5 x 64");
    refused!(altered("blocks.1.att.g2", resize(&[8, 64])), LoadError::WrongShape { .. }, "[8, 64]", "64 x 8");
    refused!(altered("blocks.1.att.x_g", resize(&[1, 1, 63])), LoadError::WrongShape { .. }, "x_g", "64 values");
    refused!(altered("head.weight", resize(&[11, 64])), LoadError::WrongShape { .. }, "10 x 64");
    refused!(altered("emb.weight", resize(&[2, 10, 64])), LoadError::WrongShape { .. }, "a matrix");
    refused!(altered("emb.weight", resize(&[10, 0])), LoadError::Shape(ShapeError::Zero("width")), "width is 0");
    refused!(altered("blocks.0.att.r_k", resize(&[2, 31])), LoadError::Shape(ShapeError::HeadSize(31)), "31");
}

#[test]
fn misplaced_formats_are_refused() {
    let quantised = gguf(|file| {
        let tensor = named(&mut file.tensors, "blk.1.time_mix_w0.weight");
        (tensor.format, tensor.bytes) = (Format::Q8_0, vec![0; 68]);
    });
    refused!(quantised, LoadError::QuantisedVector { .. }, "'blk.1.time_mix_w0.weight'", "Q8_0");
    let mixed = altered("blocks.1.att.x_v", |t| *t = Tensor::new(&t.name, Format::F32, &[64], &[0.0; 64]));
    refused!(mixed, LoadError::MixedFormats { .. }, "'blocks.1.att.x_v'", "F32", "F16");
    let mut integers = safetensors::write(&checkpoint(&TINY, Format::F16, false));
    let other = String::from_utf8_lossy(&integers[8..]).find(r#""dtype":"F16""#).unwrap() + 8;
    integers[other..other + 13].copy_from_slice(br#""dtype":"I16""#);
    refused!(integers, LoadError::UnsupportedType { .. }, "I16", "convert");
}

#[test]
fn contradicting_keys() {
    for (key, value) in [
        ("rwkv7.block_count", 4),
        ("rwkv7.embedding_length", 128),
        ("rwkv7.feed_forward_length", 97),
        ("rwkv7.wkv.head_size", 64 * 2),
        ("rwkv7.attention.decay_lora_rank", 6),
        ("rwkv7.attention.gate_lora_rank", 9),
        ("rwkv7.attention.value_residual_mix_lora_rank", 6),
    ] {
        let error = open(&gguf(|file| file.set(key, Value::U32(value)))).map(|_| ()).unwrap_err();
        match &error {
            LoadError::Contradiction { key: found, declared, .. } => {
                assert_eq!((*found, *declared), (key, value.into()));
            }
            LoadError::Shape(ShapeError::Heads { .. }) => assert_eq!(key, "rwkv7.wkv.head_size"),
            _ => panic!("{key}: {error:?}"),
        }
    }
    let tokens = gguf(|file| file.set("tokenizer.ggml.tokens", Value::Texts(vec!["<s>".into()])));
    refused!(tokens, LoadError::Contradiction { declared: 1, found: 10, .. }, "tokenizer.ggml.tokens");
    let epsilon = gguf(|file| file.set("rwkv7.attention.layer_norm_epsilon", Value::F32(1e-6)));
    refused!(epsilon, LoadError::NormEpsilon { .. }, "1e-5");
    let text = gguf(|file| file.set("rwkv7.block_count", Value::Text("3".into())));
    refused!(text, LoadError::Gguf(GgufError::KeyKind { .. }), "rwkv7.block_count", "number");
}

#[test]
fn gguf_preambles() {
    refused!(b"GGUF", LoadError::Gguf(GgufError::Truncated { offset: 4, .. }), "version at byte 4");
    refused!(gguf(|file| file.version = 1), LoadError::Gguf(GgufError::Version(1)), "version 1");
    refused!(gguf(|file| file.version = 3 << 24), LoadError::Gguf(GgufError::BigEndian), "big endian");
    let mut counts = gguf(|_| ());
    counts[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    refused!(counts, LoadError::Gguf(GgufError::Count { what: "tensors", .. }), "byte 24");
    counts = gguf(|_| ());
    counts[16..24].copy_from_slice(&(1u64 << 40).to_le_bytes());
    refused!(counts, LoadError::Gguf(GgufError::Count { what: "key-value pairs", .. }), "1099511627776");
}

#[test]
fn gguf_keys() {
    let arch = "general.architecture";
    refused!(
        gguf(|f| f.set(arch, Value::Text("llama".into()))),
        LoadError::Gguf(GgufError::Architecture(_)),
        "'llama'"
    );
    refused!(gguf(|f| f.keys.retain(|(k, _)| k != arch)), LoadError::Gguf(GgufError::MissingKey(_)), arch);
    for (kind, says) in [
        ("adapter", "'adapter', not 'model': merge it into its model with llama.cpp's llama-export-lora, and take"),
        ("mmproj", "'mmproj', not 'model': it brings pictures or sound into a model; take the model"),
        ("imatrix", "'imatrix', not 'model': it helps to quantise a model; take the model"),
        ("goose", "'goose', not 'model': take the model"),
    ] {
        let file = gguf(|f| f.set("general.type", Value::Text(kind.into())));
        refused!(file, LoadError::Gguf(GgufError::Type { kind: found }) if found == kind, says);
    }
    for name in ["arwkv7", "rwkv6", "rwkv6qwen2", "llama"] {
        let file = gguf(|f| f.set("general.architecture", Value::Text(name.into())));
        let says = format!("a model of architecture '{name}': only 'rwkv7' can be run (llama.cpp runs others)");
        refused!(file, LoadError::Gguf(GgufError::Architecture(found)) if found == name, says.as_str());
    }
    let head = "rwkv7.wkv.head_size";
    refused!(gguf(|f| f.keys.retain(|(k, _)| k != head)), LoadError::Gguf(GgufError::MissingKey(_)), head);
    for alignment in [0, 48, 1 << 31] {
        let file = gguf(|f| f.set("general.alignment", Value::U32(alignment)));
        refused!(file, LoadError::Gguf(GgufError::Alignment(_)), "power of two");
    }
    let twice = gguf(|f| f.keys.extend([("a".to_owned(), Value::U32(0)), ("a".to_owned(), Value::U32(0))]));
    refused!(twice, LoadError::Gguf(GgufError::DuplicateKey { .. }), "'a'");
    refused!(
        gguf(|f| f.set("a", Value::Raw(13, vec![]))),
        LoadError::Gguf(GgufError::ValueType { found: 13, .. }),
        "'a'"
    );
    let nested = [9u32.to_le_bytes().to_vec(), 1u64.to_le_bytes().to_vec()].concat().repeat(5);
    let nested = gguf(|f| f.set("deep", Value::Raw(9, nested)));
    refused!(nested, LoadError::Gguf(GgufError::Nesting { limit: 4, .. }), "'deep'");
    let flat =
        [&9u32.to_le_bytes()[..], &1u64.to_le_bytes(), &0u32.to_le_bytes(), &2u64.to_le_bytes(), &[1, 2]].concat();
    assert!(open(&gguf(|f| f.set("shallow", Value::Raw(9, flat)))).is_ok());
    let count = [4u32.to_le_bytes().to_vec(), u64::MAX.to_le_bytes().to_vec()].concat();
    refused!(gguf(|f| f.set("a", Value::Raw(9, count))), LoadError::Gguf(GgufError::Count { .. }), "elements");
}

#[test]
fn gguf_tensors() {
    let overlap = |change: fn(&mut Vec<u64>)| {
        let file = Gguf::of(&TINY);
        let mut offsets = file.offsets();
        change(&mut offsets);
        file.write_at(&offsets)
    };
    let misaligned = overlap(|o| o[3] += 4);
    refused!(misaligned, LoadError::Gguf(GgufError::Misaligned { alignment: 32, .. }), "'blk.0.attn_norm.weight'");
    let shared = overlap(|o| o[2] = o[1]);
    refused!(shared, LoadError::Gguf(GgufError::Directory(DirectoryError::Overlap { .. })), "'token_embd_norm.bias'");
    let outside = overlap(|o| o[5] = 1 << 40);
    refused!(
        outside,
        LoadError::Gguf(GgufError::Directory(DirectoryError::OutOfRange { .. })),
        "byte 10995",
        "truncated"
    );
    let overflow = overlap(|o| o[5] = u64::MAX - 31);
    refused!(overflow, LoadError::Gguf(GgufError::Directory(DirectoryError::OutOfRange { .. })), "truncated");
    let whole = gguf(|_| ());
    let cut = &whole[..whole.len() - 1];
    refused!(cut, LoadError::Gguf(GgufError::Directory(DirectoryError::OutOfRange { .. })), "'output.weight'");
    let twice = gguf(|f| f.tensors.push(f.tensors[4].clone()));
    refused!(twice, LoadError::Gguf(GgufError::Directory(DirectoryError::Duplicate { .. })), "twice");
    let dims = gguf(|f| f.tensors[0].dims = vec![1; 5]);
    refused!(dims, LoadError::Gguf(GgufError::Dimensions { count: 5, .. }), "'token_embd.weight'");
    let dims = gguf(|f| f.tensors[0].dims = vec![1 << 32, 1 << 32]);
    refused!(dims, LoadError::Gguf(GgufError::Directory(DirectoryError::ImpossibleSize { .. })), "'token_embd.weight'");
    let blocks = gguf(|f| f.tensors[0].format = Format::Q4_K);
    refused!(blocks, LoadError::Gguf(GgufError::Directory(DirectoryError::ImpossibleSize { .. })), "[10, 64]", "Q4_K");
    let mut unknown = gguf(|_| ());
    let name = unknown.windows(17).position(|w| w == b"token_embd.weight").unwrap();
    unknown[name + 17 + 4 + 16] = 16;
    refused!(unknown, LoadError::UnsupportedType { .. }, "'token_embd.weight'", "IQ2_XXS (ggml type 16)");
}

#[test]
fn safetensors_headers() {
    use LoadError::Safetensors as St;
    let write = safetensors::with_header;
    let file = safetensors::write(&checkpoint(&TINY, Format::F16, false));
    refused!(file[..100], St(SafetensorsError::HeaderLength { end: 100, .. }), "truncated");
    refused!([&u64::MAX.to_le_bytes()[..], b"{"].concat(), St(SafetensorsError::HeaderTooLarge { .. }), "100000000");
    refused!(write("{nonsense}", &[]), St(SafetensorsError::Header(_)), "line 1 column 2");
    let info = |info: &str| write(&format!(r#"{{"a":{{{info}}}}}"#), &[0; 8]);
    refused!(info(r#""dtype":"F32","shape":[2]"#), St(SafetensorsError::Header(_)), "'a'", "data_offsets");
    refused!(info(r#""dtype":"F32","shape":[-1],"data_offsets":[0,8]"#), St(SafetensorsError::Header(_)), "'a'", "-1");
    refused!(
        info(r#""dtype":"F32","shape":[2],"data_offsets":[0,9]"#),
        St(SafetensorsError::Offsets { len: 8, .. }),
        "'a'"
    );
    refused!(info(r#""dtype":"F32","shape":[2],"data_offsets":[8,0]"#), St(SafetensorsError::Offsets { .. }), "[8, 0]");
    refused!(
        info(r#""dtype":"F32","shape":[3],"data_offsets":[0,8]"#),
        St(SafetensorsError::Length { .. }),
        "takes 12"
    );
    refused!(
        info(r#""dtype":"F32","shape":[9223372036854775807,3],"data_offsets":[0,8]"#),
        St(SafetensorsError::Directory(DirectoryError::ImpossibleSize { .. })),
        "'a'"
    );
    let a = r#""a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;
    refused!(
        write(&format!("{{{a},{a}}}"), &[0; 8]),
        St(SafetensorsError::Directory(DirectoryError::Duplicate { .. })),
        "'a'"
    );
    let b = r#""b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}"#;
    refused!(
        write(&format!("{{{a},{b}}}"), &[0; 8]),
        St(SafetensorsError::Directory(DirectoryError::Overlap { .. })),
        "'a' and 'b'"
    );
}

fn archive(program: Vec<u8>, more: &[(&str, &[u8])], style: Zip) -> Vec<u8> {
    let more = more.iter().map(|(name, data)| ((*name).to_owned(), data.to_vec()));
    pth::zip(&[("data.pkl".to_owned(), program)].into_iter().chain(more).collect::<Vec<_>>(), style)
}

fn program(program: &[u8]) -> Vec<u8> {
    archive(program.to_vec(), &[], Zip::default())
}

#[test]
fn pth_archives() {
    let whole = pth::write(&checkpoint(&TINY, Format::F16, true), Style::Plain);
    refused!(whole[..whole.len() - 30], LoadError::Pth(PthError::Archive(ArchiveError::Zip(_))), "truncated");
    let empty = pth::zip(&[("version".into(), b"3".to_vec())], Zip::default());
    refused!(empty, LoadError::Pth(PthError::Archive(ArchiveError::Missing(_))), "'data.pkl'");
    for name in ["data.pkl", "data/0"] {
        let mut p = Program::begin();
        p.tensor(&Tensor::new("a", Format::F32, &[1], &[0.0]), "0", 0, &[1]);
        let file = archive(p.end(), &[("data/0", &[0; 4])], Zip { deflated: Some(name), ..Zip::default() });
        refused!(file, LoadError::Pth(PthError::Archive(ArchiveError::NotStored { .. })), name, "save the model again");
    }
    let packed = pth::zip(&[("rwkv7.gguf".into(), b"GGUF".to_vec())], Zip::default());
    refused!(
        packed,
        LoadError::Pth(PthError::Archive(ArchiveError::Packed(_))),
        "'archive/rwkv7.gguf' in it: unpack it"
    );
    let twice = archive(vec![], &[("data/0", b""), ("data/0", b"")], Zip::default());
    refused!(twice, LoadError::Pth(PthError::Archive(ArchiveError::Duplicate(_))), "'archive/data/0'");
    let big = archive(Program::begin().end(), &[("byteorder", b"big")], Zip::default());
    refused!(big, LoadError::Pth(PthError::BigEndian), "little-endian");
}

#[test]
fn checkpoints_of_optimizers() {
    // As `torch.save(optimizer.state_dict(), ...)`: a list and numbers in it, which no state dict has.
    let mut alone = Program::of(b"\x80\x02}q\0(");
    alone.text("state");
    alone.0.push(b'}');
    alone.text("param_groups");
    alone.0.extend(b"]}");
    alone.text("lr");
    alone.0.extend([&b"G"[..], &1e-4_f64.to_be_bytes(), b"sau."].concat());
    refused!(program(&alone.0), LoadError::Pth(PthError::Optimizer), "an optimizer: save the weights alone");
}

#[test]
fn pth_programs() {
    use LoadError::Pth as P;
    use PthError::Pickle;
    refused!(
        program(b"\x80\x02cos\nsystem\n"),
        P(Pickle(PickleError::Global { offset: 2, .. })),
        "'os.system'",
        "byte 2"
    );
    refused!(program(b"cbuiltins\neval\n."), P(Pickle(PickleError::Global { .. })), "'builtins.eval'");
    refused!(program(b"ctorch\nload\n."), P(Pickle(PickleError::Global { .. })), "'torch.load'");
    refused!(program(b"\x80\x02i"), P(Pickle(PickleError::Opcode { opcode: b'i', offset: 2 })), "0x69", "byte 2");
    refused!(program(b"\x80\x02}"), P(Pickle(PickleError::Truncated { offset: 3 })), "byte 3");
    refused!(program(b"X\xff\xff\xff\xff"), P(Pickle(PickleError::Truncated { .. })), "without a result");
    for (bytes, expected) in [
        (&b"."[..], "value on the stack"),
        (b"u", "mark"),
        (b"t", "mark"),
        (b"N(.", "value on the stack"),
        (b"N(\x85", "tuple"),
        (b"NNs", "dictionary"),
        (b"N(NNu", "dictionary"),
        (b"}(Nu", "dictionary"),
        (b"h\0", "memo"),
        (b"Nq\x05", "memo"),
        (b"NQ", "storage"),
        (b")Q", "storage"),
        (b"N)R", "function"),
        (b"ctorch\nFloatStorage\n)R", "function"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n)R", "strides"),
        (b"ctorch._utils\n_rebuild_parameter\n)R", "parameter"),
        (b"N\x93", "value on the stack"),
        (b"NN\x93", "module and name"),
        (b"a", "items above a list"),
        (b"}Na", "list"),
        (b"e", "mark"),
        (b"\x94", "value on the stack"),
        (b"ctorch._utils\n_rebuild_tensor_v3\n)R", "type of a tensor"),
        (b"ctorch._tensor\n_rebuild_from_type_v2\n)R", "attributes"),
        (b"ctorch\nfloat32\n)R", "function"),
        (b"\x8a\x09", "64 bits"),
        (b"X\x01\0\0\0\xff", "UTF-8"),
    ] {
        refused!(program(bytes), P(Pickle(PickleError::Operand { .. })), expected);
    }
    // A tensor that is to be negated: `torch._neg_view`.
    let storage = b"((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000NK\x01tQ".as_slice();
    let negated = [&b"ctorch._utils\n_rebuild_tensor_v2\n"[..], storage, b"K\0))NN}tR"].concat();
    refused!(program(&negated), P(Pickle(PickleError::Operand { .. })), "those of its storage");
    refused!(program(&b"N".repeat(20_000)), P(Pickle(PickleError::TooMany { .. })), "stack");
    refused!(program(b"N."), P(PthError::NoStateDict), "state_dict");
    refused!(program(b"}X\x01\0\0\0aNs."), P(PthError::NotATensor { .. }), "'a'");
    refused!(program(b"}K\x01Ns."), P(PthError::NotATensor { .. }), "Int(1)");
}

#[test]
fn pth_tensors() {
    let with = |t: Tensor, offset, strides: &[usize], data: &[u8]| {
        let mut p = Program::begin();
        p.tensor(&t, "0", offset, strides);
        archive(p.end(), &[("data/0", data)], Zip::default())
    };
    let t = |dims: &[usize]| Tensor { name: "a".into(), format: Format::F32, dims: dims.to_vec(), bytes: vec![0; 24] };
    let six = [0; 24];
    refused!(with(t(&[2, 3]), 0, &[6, 2], &six), LoadError::Pth(PthError::Storage { .. }), "'a'", "does not fit");
    refused!(
        with(t(&[200, 300]), 0, &[0, 1], &[0; 1200]),
        LoadError::Pth(PthError::Strides { .. }),
        "[0, 1]",
        ".contiguous()"
    );
    refused!(with(t(&[2, 3]), 0, &[1], &six), LoadError::Pth(PthError::Sizes { .. }), "'a'");
    refused!(with(t(&[1; 9]), 0, &[1; 9], &six), LoadError::Pth(PthError::Sizes { .. }), "'a'");
    refused!(with(t(&[2, 3]), 1, &[3, 1], &six), LoadError::Pth(PthError::Storage { .. }), "element 1", "24 bytes");
    refused!(with(t(&[2, 3]), 0, &[3, 1], &six[1..]), LoadError::Pth(PthError::Storage { .. }), "23 bytes");
    refused!(with(t(&[2, 3]), usize::MAX, &[3, 1], &six), LoadError::Pth(PthError::Storage { .. }), "does not fit");
    let (huge, strides) = ([1 << 40, 1 << 40], [1 << 40, 1]);
    refused!(with(t(&huge), 0, &strides, &six), LoadError::Pth(PthError::Storage { .. }), "does not fit");
    let mut p = Program::begin();
    p.tensor(&t(&[6]), "7", 0, &[1]);
    let missing = archive(p.end(), &[], Zip::default());
    refused!(missing, LoadError::Pth(PthError::Archive(ArchiveError::Missing(_))), "'archive/data/7'");
    let mut p = Program::begin();
    (0..2).for_each(|_| p.tensor(&t(&[6]), "0", 0, &[1]));
    let twice = archive(p.end(), &[("data/0", &six)], Zip::default());
    refused!(twice, LoadError::Pth(PthError::Directory(DirectoryError::Duplicate { .. })), "'a'");

    let double = pth::write(&[Tensor { format: Format::Q8_0, ..t(&[6]) }], Style::Plain);
    refused!(double, LoadError::MissingTensor { .. }, "emb.weight"); // tensors nobody needs may have any type
    let mut tensors = checkpoint(&TINY, Format::F16, true);
    named(&mut tensors, "head.weight").format = Format::Q8_0;
    refused!(pth::write(&tensors, Style::Plain), LoadError::UnsupportedType { .. }, "'head.weight'", "torch.float64");
    let float8 = pth::write(&tensors, Style::UntypedStorages);
    refused!(float8, LoadError::UnsupportedType { .. }, "'head.weight'", "torch.float8_e4m3fn", "F16");

    // Six mixes of a layer are read where they lie.
    let apart = |t: Tensor| {
        let strides = if t.name.ends_with("att.x_k") { vec![64, 64, 2] } else { pth::row_major(&t.dims) };
        let bytes = if t.name.ends_with("att.x_k") { t.bytes.repeat(2) } else { t.bytes.clone() };
        (Tensor { bytes, ..t }, strides)
    };
    let views: Vec<_> = checkpoint(&TINY, Format::F16, true).into_iter().map(apart).collect();
    refused!(pth::write_views(&views, Style::Plain), LoadError::Strided { .. }, "'blocks.0.att.x_k'", ".contiguous()");
}

#[test]
fn errors_can_be_kept_and_sent() {
    fn kept<T: Debug + Send + Sync + 'static>() {}
    kept::<LoadError>();
}
