//! Time and peak memory of loading a model into web-rwkv, in a fresh process each: through this reader, and with a
//! second file through web-rwkv's own. `load_times MODEL [OWN.st]` prints a line for each.

use half::f16;
use safetensors::SafeTensors;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use web_rwkv::context::{ContextBuilder, InstanceExt};
use web_rwkv::runtime::TokioRuntime;
use web_rwkv::runtime::infer::{Rnn, RnnInput, RnnInputBatch, RnnOption};
use web_rwkv::runtime::loader::{Loader, Reader};
use web_rwkv::runtime::model::{ContextAutoLimits, ModelBuilder};
use web_rwkv::runtime::v7::Bundle;
use web_rwkv::wgpu::{Instance, PowerPreference};
use wgoose_web_rwkv::ModelReader;

type Failure = Box<dyn std::error::Error>;

/// A field of this process's memory in KiB; 0 where the system does not tell.
fn memory_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

/// Builds the model. Prints the time, which includes opening the file and leaves out opening the device, and the most
/// memory.
async fn load(model: impl Reader, label: &str, opened: Duration) -> Result<(), Failure> {
    let info = Loader::info(&model)?;
    let adapter = Instance::default().adapter(PowerPreference::HighPerformance).await?;
    let device = adapter.get_info().name;
    let context = ContextBuilder::new(adapter).auto_limits(&info).build().await?;

    static DONE: AtomicBool = AtomicBool::new(false);
    static ANONYMOUS_KIB: AtomicU64 = AtomicU64::new(0);
    let watch = thread::spawn(|| {
        while !DONE.load(Ordering::Relaxed) {
            ANONYMOUS_KIB.fetch_max(memory_kib("RssAnon"), Ordering::Relaxed);
            thread::sleep(Duration::from_millis(2));
        }
    });
    let start = Instant::now();
    let model = ModelBuilder::new(&context, model).build_v7().await?;
    let took = opened + start.elapsed();
    DONE.store(true, Ordering::Relaxed);
    watch.join().map_err(|_| "the memory was not watched")?;
    let (peak, anonymous) = (memory_kib("VmHWM") >> 10, ANONYMOUS_KIB.load(Ordering::Relaxed) >> 10);

    let runtime = TokioRuntime::<Rnn>::new(Bundle::<f16>::new(model, 1)).await;
    let input = RnnInput::new(vec![RnnInputBatch::new((1..=32u32).collect(), RnnOption::Last)], 32);
    let (_, output) = runtime.infer(input).await?;
    let fold = |hash: u64, logit: &f32| (hash ^ u64::from(logit.to_bits())).wrapping_mul(0x0100_0000_01b3);
    let hash = output[0].0.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    println!(
        "{label}: {:.0} ms, peak {peak} MiB, of them anonymous {anonymous} MiB, logits {hash:016x}, {device}",
        took.as_secs_f64() * 1e3,
    );
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let name = |path: &str| Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let start = Instant::now();
    match words[..] {
        ["--ours", path] => {
            let model = ModelReader::open(path)?;
            load(model, &format!("wgoose-web-rwkv, {}", name(path)), start.elapsed()).await
        }
        ["--own", path] => {
            let file = std::fs::File::open(path)?;
            // SAFETY: nobody writes to the file while this program runs.
            let data = unsafe { memmap2::Mmap::map(&file)? };
            let model = SafeTensors::deserialize(&data)?;
            load(model, &format!("web-rwkv, {}", name(path)), start.elapsed()).await
        }
        [model] => fresh(&[["--ours", model]]),
        [model, own] => fresh(&[["--ours", model], ["--own", own]]),
        _ => Err("load_times MODEL [OWN.st]".into()),
    }
}

/// Runs this program again for each.
fn fresh(runs: &[[&str; 2]]) -> Result<(), Failure> {
    for run in runs {
        let status = Command::new(std::env::current_exe()?).args(run).status()?;
        if !status.success() {
            return Err(format!("{} {} failed", run[0], run[1]).into());
        }
    }
    Ok(())
}
