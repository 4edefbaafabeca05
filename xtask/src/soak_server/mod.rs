//! `cargo xtask soak-server`: a server under clients that stall, hang up and flood, while others compare answers.

mod bad;
mod good;
mod process;

use crate::demo;
use crate::shell::{Error, Result};
use crate::vulkan;
use crate::wgoose::{Profile, Wgoose};
use bad::Misdeeds;
use good::{Answers, Latencies};
use process::{Memory, Served};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Duration of the test
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Clients that misbehave at the same time
    #[arg(long, default_value_t = 1000)]
    clients: usize,
    /// Clients whose answers are compared with those of a server without load
    #[arg(long, default_value_t = 3)]
    good: usize,
    /// Seed: the same seed draws the same misdeeds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave out misdeeds for which the model works, to see what the others cost
    #[arg(long)]
    spare_model: bool,
    /// A tool that is already built
    #[arg(long, value_name = "FILE")]
    tool: Option<std::path::PathBuf>,
}

/// Growth of the memory from a third of the run to its end, in bytes, beyond which the test fails.
const MOST_GROWTH: u64 = 64 << 20;

/// Stack of a client's thread: there are many.
const STACK: usize = 128 << 10;

/// Time between two looks at the server.
const INTERVAL: Duration = Duration::from_secs(10);

/// Runs the test.
///
/// # Errors
/// The server ends or grows, an answer differs, or the system does not allow that number of connections.
pub(crate) fn run(args: &Args) -> Result<()> {
    vulkan::ensure()?;
    let wgoose = match &args.tool {
        Some(tool) => Wgoose::built(tool.clone()),
        None => Wgoose::build(Profile::Release)?,
    };
    let connections = (2 * args.clients + 100).to_string();
    let serve = ["serve", demo::TRAINED, "--port", "0", "--batch-invariant", "--connections", &connections];
    let mut served = Served::begin(wgoose.command(serve))?;
    let address = served.address.clone();
    let answers = Answers::alone(&address)?;
    println!("{answers}");
    let before = served.look()?;
    println!("before: {before}");
    let (ends, misdeeds, latencies) = (AtomicBool::new(false), Misdeeds::default(), Latencies::default());
    let (begun, total) = (Instant::now(), Duration::from_secs(60 * args.minutes));
    let watched = thread::scope(|scope| {
        for client in 0..args.clients {
            let (address, spares, ends, misdeeds) = (&address, args.spare_model, &ends, &misdeeds);
            let random = fastrand::Rng::with_seed(args.seed.wrapping_mul(0x9E37_79B9).wrapping_add(client as u64));
            let begin = thread::Builder::new().stack_size(STACK);
            let thread = begin.spawn_scoped(scope, move || bad::misbehave(address, random, spares, ends, misdeeds));
            thread.map_err(|e| Error::Other(format!("no thread for client {client}: {e}")))?;
        }
        let asking: Vec<_> = (0..args.good)
            .map(|client| {
                let (address, answers, ends, latencies) = (&address, &answers, &ends, &latencies);
                scope.spawn(move || answers.compare(address, client, ends, latencies))
            })
            .collect();
        let watched = watch(&mut served, begun, total, &misdeeds, &latencies);
        ends.store(true, Ordering::Relaxed);
        let compared = asking
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Error::Other("a client panicked".to_owned()))));
        compared.collect::<Result<Vec<()>>>()?;
        watched
    });
    let memory = watched?;
    println!("misdeeds: {misdeeds}");
    println!("compared: {latencies}");
    println!("memory: {memory}");
    let late = answers.compare_once(&address)?;
    println!("afterwards an answer takes {:.1} ms", late.as_secs_f64() * 1e3);
    let after = served.look_when_closed(&before)?;
    println!("afterwards: {after}");
    served.end()?;
    match memory.growth() > MOST_GROWTH {
        true => Err(Error::Other(format!("the server's memory grows: {memory}"))),
        false => Ok(()),
    }
}

/// Looks at the server until the time is over.
fn watch(
    served: &mut Served,
    begun: Instant,
    total: Duration,
    misdeeds: &Misdeeds,
    latencies: &Latencies,
) -> Result<Memory> {
    let mut memory = Memory::default();
    while begun.elapsed() < total {
        thread::sleep(INTERVAL.min(total.saturating_sub(begun.elapsed())));
        let look = served.look()?;
        let seconds = begun.elapsed().as_secs();
        println!("{seconds:>5} s  {look}  misdeeds {}  compared {}", misdeeds.count(), latencies.count());
        memory.add(begun.elapsed().as_secs_f64() / total.as_secs_f64(), &look);
    }
    Ok(memory)
}
