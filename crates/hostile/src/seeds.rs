//! Valid inputs: what fuzzers begin with.

use crate::world::{World, options};
use flate2::read::GzDecoder;
use std::error::Error;
use std::fs;
use std::io::Read;
use wgoose_kernels::{DeviceFingerprint, Limits, Plan};
use wgoose_loader::{Container, synth};
use wgoose_session::tokenizer::Tokenizer;
use wgoose_session::{EmbedOptions, EmbeddingCacheOptions};

/// Lines of a ledger, which repeat themselves.
const LINES: usize = 40;

/// The name of a format, and an input of it.
pub type Seed = (&'static str, Vec<u8>);

/// Valid inputs with the names of their formats.
///
/// # Errors
/// The system's temporary folder cannot be written.
pub fn seeds() -> Result<Vec<Seed>, Box<dyn Error>> {
    let world = World::get();
    let path = |name: &str| world.folder.path().join(name);
    synth::write(&options(Container::Safetensors), &path("model.st"), &mut synth::unwatched)?;
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
    let mut ledger = String::new();
    let packed = include_bytes!("../../../optimization_plan/tuning/2.9b-q4_k_m-h200-3d57b74.jsonl.gz");
    GzDecoder::new(&packed[..]).read_to_string(&mut ledger)?;
    let entries = Tokenizer::world().vocabulary().take(300).enumerate().skip(1);
    let of_bytes = |(id, bytes): (usize, &[u8])| {
        let hex: String = bytes.iter().map(|b| format!("\\x{b:02x}")).collect();
        format!("{id} b'{hex}' {}\n", bytes.len())
    };
    let kernel = |name: &str| world.catalogue.text(name).map(|text| text.as_bytes().to_vec()).ok_or("no such kernel");
    Ok(vec![
        ("gguf", fs::read(world.model.path())?),
        ("safetensors", fs::read(path("model.st"))?),
        ("pth", include_bytes!("../../../oracle/goldens/tiny.pth").to_vec()),
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
    ])
}
