//! Valid inputs: what fuzzers begin with.

use crate::world::{SHAPE, World, options};
use std::error::Error;
use std::fs;
use wgoose_graph::{ModelShape, Weight};
use wgoose_kernels::{DeviceFingerprint, Limits, Plan};
use wgoose_loader::Container;
use wgoose_loader::synth::{self, SynthOptions};
use wgoose_session::tokenizer::Tokenizer;
use wgoose_session::{EmbedOptions, EmbeddingCacheOptions};

/// Lines of a ledger, which repeat themselves.
const LINES: usize = 40;

/// The shard that the index lists.
pub(crate) const SHARD: &str = "model.safetensors";

/// A configuration of the model, as flash-linear-attention writes it.
const CONFIG: &str = r#"{"architectures": ["RWKV7ForCausalLM"], "model_type": "rwkv7", "torch_dtype": "float16",
    "num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32, "head_dim": 32, "vocab_size": 300,
    "decay_low_rank_dim": 8, "a_low_rank_dim": 8, "v_low_rank_dim": 8, "gate_low_rank_dim": 8, "norm_eps": 1e-05,
    "norm_first": true, "hidden_act": "sqrelu", "attn": null}"#;

/// The name of a format, and an input of it.
pub type Seed = (&'static str, Vec<u8>);

/// Valid inputs with the names of their formats.
///
/// # Errors
/// The system's temporary folder cannot be written.
pub fn seeds() -> Result<Vec<Seed>, Box<dyn Error>> {
    let world = World::get();
    let path = |name: &str| world.folder.path().join(name);
    let checkpoint = options(Container::Safetensors);
    let shape = ModelShape { deep_embed: Some(4), ..checkpoint.shape };
    synth::write(&SynthOptions { shape, ..checkpoint }, &path("rwkv7a.st"), &mut synth::unwatched)?;
    let cache = EmbeddingCacheOptions { store: Some(path("store")), ..EmbeddingCacheOptions::default() };
    let mut session = world.session(Some(cache))?;
    session.embed(&[1, 2, 3], &EmbedOptions::default())?;
    session.embed(&[4], &EmbedOptions::default())?;
    session.save_state(path("state"))?;
    drop(session);
    let limits = Limits::webgpu();
    let device = DeviceFingerprint {
        adapter: "an adapter".to_owned(),
        vendor: 1,
        device: 2,
        driver: "3".to_owned(),
        backend: "vulkan".to_owned(),
        wgpu: "4".to_owned(),
    };
    let packed = include_bytes!("../../../optimization_plan/tuning/2.9b-q4_k_m-h200-3d57b74.jsonl.zst");
    let ledger = String::from_utf8(wgoose_files::unpacked(packed.to_vec())?)?;
    let entries = Tokenizer::world().vocabulary().take(300).enumerate().skip(1);
    let of_bytes = |(id, bytes): (usize, &[u8])| {
        let hex: String = bytes.iter().map(|b| format!("\\x{b:02x}")).collect();
        format!("{id} b'{hex}' {}\n", bytes.len())
    };
    let kernel = |name: &str| world.catalogue.text(name).map(|text| text.as_bytes().to_vec()).ok_or("no such kernel");
    let of_formats = vec![
        ("gguf", fs::read(world.model.path())?),
        ("safetensors", world.safetensors.clone()),
        ("safetensors", fs::read(path("rwkv7a.st"))?),
        ("index", index().into_bytes()),
        ("config", CONFIG.into()),
        ("split", first_part(&fs::read(world.model.path())?)),
        ("pth", include_bytes!("../../../oracle/goldens/tiny.pth").to_vec()),
        ("pth", include_bytes!("../../../oracle/goldens/protocol5.pth").to_vec()),
        ("plan", Plan::default_for(device, *world.model.shape(), &limits).to_ron().into_bytes()),
        ("plan", include_bytes!("../../../plans/nvidia-h200/24x2048-f16.ron").to_vec()),
        ("ledger", ledger.lines().take(LINES).collect::<Vec<_>>().join("\n").into_bytes()),
        ("state", fs::read(path("state"))?),
        ("store", fs::read(path("store"))?),
        ("reference", fs::read(path("cache").join(&world.reference_name))?),
        ("extended", fs::read(path("extended").join(&world.extended_name))?),
        ("kernel", kernel("ops/matmul/naive.wgsl")?),
        ("kernel", kernel("ops/matmul/gemv_subgroup.wgsl")?),
        ("kernel", kernel("ops/matmul/gemm_tiled.wgsl")?),
        ("vocabulary", entries.map(of_bytes).collect::<String>().into_bytes()),
        ("tokens", "A goose\u{e9} \u{1f986}\n\n  says: \0".as_bytes().to_vec()),
        ("upload", fs::read(path("state"))?),
        ("upload", tuned_state()),
        ("upload", include_bytes!("../../../oracle/goldens/tiny.pth").to_vec()),
    ];
    let requests = REQUESTS.iter().map(|(path, body)| ("request", [&[*path], body.as_bytes()].concat()));
    Ok(of_formats.into_iter().chain(requests).collect())
}

/// Bodies of requests, and the numbers of their paths.
const REQUESTS: [(u8, &str); 15] = [
    (
        0,
        r#"{"prompt": ["goose", "swan"], "max_tokens": 3, "n": 2, "temperature": 0.5, "top_p": 0.9, "top_k": 40,
            "typical_p": 1, "seed": 7, "stop": ["\n"], "stop_token_ids": [0], "logit_bias": {"5": -1.5}, "echo": true,
            "presence_penalty": 0.1, "frequency_penalty": 0.1, "penalty_decay": 0.99, "stream": true, "priority": 1,
            "stream_options": {"include_usage": true}}"#,
    ),
    (0, r#"{"prompt": [1, 2, 3], "max_tokens": -1, "session_id": "a", "return_state": true}"#),
    (
        1,
        r#"{"messages": [{"role": "system", "content": "Honk."}, {"role": "user", "content": [{"type": "text",
            "text": "a"}]}, {"role": "assistant", "content": "b", "reasoning_content": "c"}, {"role": "user",
            "content": "d", "name": "me"}], "reasoning_effort": "low", "max_completion_tokens": 9}"#,
    ),
    (
        1,
        r#"{"messages": [{"role": "user", "content": "a"}], "think_type": "enShort", "system": "Honk.",
            "alpha_presence": 1, "alpha_frequency": 0.1, "alpha_decay": 0.9, "stop_tokens": [0, "b"], "chunk_size": 1}"#,
    ),
    (
        2,
        r#"{"input": "a", "instructions": "b", "max_output_tokens": 3, "reasoning": {"effort": "none"}, "store": false}"#,
    ),
    (2, r#"{"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}]}"#),
    (3, r#"{"input": ["a", "b"], "encoding_format": "base64", "dimensions": 32, "model": "a:sts"}"#),
    (4, r#"{"query": "a", "documents": ["b", {"text": "c"}], "top_n": 1, "return_documents": true}"#),
    (5, r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#),
    (6, r#"{"contents": ["a", "b"], "stream": true, "noise": 0, "pad_zero": false}"#),
    (7, "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.pth\"\r\n\r\nhonk\r\n--x--\r\n"),
    (10, r#"{"messages": [{"role": "user", "content": "a"}], "enable_think": true}"#),
    (11, r#"{"session_id": "a", "contents": ["User: a\n\nAssistant:"]}"#),
    (13, r#"{"content": "a goose"}"#),
    (14, r#"{"tokens": [98, 99]}"#),
];

/// A tuned initial state as safetensors.
fn tuned_state() -> Vec<u8> {
    let (size, bytes) = (SHAPE.head_size, 4 * SHAPE.width * SHAPE.head_size);
    let heads = SHAPE.width / size;
    let header = format!(
        r#"{{"blocks.0.att.time_state":{{"dtype":"F32","shape":[{heads},{size},{size}],"data_offsets":[0,{bytes}]}}}}"#
    );
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; bytes as usize]].concat()
}

/// An index that lists some tensors of the model.
fn index() -> String {
    let listed = Weight::all(&SHAPE).map(|weight| weight.to_string()).filter(|name| !name.contains("x_rwkvag"));
    let tensors: Vec<String> = listed.map(|name| format!("\"{name}\": \"{SHARD}\"")).collect();
    format!("{{\"metadata\": {{\"total_size\": 1}}, \"weight_map\": {{{}}}}}", tensors.join(", "))
}

/// A key of a GGUF file with its value, of the type of that number.
fn pair(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&(key.len() as u64).to_le_bytes(), key.as_bytes(), &kind.to_le_bytes(), value].concat()
}

/// The keys of a part: which one it is of two.
fn part(number: u16) -> Vec<u8> {
    const U16: u32 = 2;
    [pair("split.no", U16, &number.to_le_bytes()), pair("split.count", U16, &2u16.to_le_bytes())].concat()
}

/// The bytes before the keys of a GGUF file.
const GGUF_HEADER: usize = 24;

/// A GGUF file as the first part of two.
fn first_part(file: &[u8]) -> Vec<u8> {
    const U8: u32 = 0;
    let (header, rest) = file.split_at(GGUF_HEADER);
    let (counted, pairs) = header.split_at(GGUF_HEADER - 8);
    let pairs = pairs.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)) + 3;
    // The length of another key keeps the tensors where they are aligned.
    let own = [part(0), pair("fill", U8, &[0])].concat();
    [counted, &pairs.to_le_bytes(), &own, rest].concat()
}

/// The second part of two, without tensors.
pub(crate) fn last_part() -> Vec<u8> {
    [&b"GGUF\x03\0\0\0"[..], &0u64.to_le_bytes(), &2u64.to_le_bytes(), &part(1)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_loader::Model;

    #[test]
    fn seeds_of_folders_are_models() {
        let seeds = seeds().unwrap();
        let seed = |format: &str| seeds.iter().find(|(name, _)| *name == format).unwrap().1.clone();
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        write(SHARD, &seed("safetensors"));
        write("config.json", &seed("config"));
        assert_eq!(Model::open(folder.path()).unwrap().shape(), &SHAPE);
        write("model.safetensors.index.json", &seed("index"));
        assert_eq!(Model::open(folder.path().join("model.safetensors.index.json")).unwrap().shape(), &SHAPE);
        write("model-00001-of-00002.gguf", &seed("split"));
        write("model-00002-of-00002.gguf", &last_part());
        assert_eq!(Model::open(folder.path().join("model-00001-of-00002.gguf")).unwrap().files().count(), 2);
    }
}
