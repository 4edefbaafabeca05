//! The child's side: jobs from stdin, one after another; outcomes to stdout.

use super::wire::{Reply, Request};
use crate::job::{PlanId, Plans};
use crate::runner::{Assignment, Runner};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;
use wgoose_runtime::Device;

/// How long a job may go on once nobody waits for it.
const GRACE: Duration = Duration::from_secs(2);

/// Does what stdin asks for first: opens a runner and runs jobs in it until stdin ends, or starts as people do, with
/// the plan of a file and a prompt of so many tokens, and says when the first token is chosen. Once stdin ends the
/// process does soon, even in the middle of a job that never does: the parent may have been killed.
///
/// # Errors
/// What was asked for first cannot be done, or stdout is closed.
pub fn serve<L: Runner, E: From<io::Error>>(
    open: impl FnOnce() -> Result<(Arc<Device>, L), E>,
    start: impl FnOnce(&Path, u32, &mut dyn FnMut()) -> Result<(), E>,
) -> Result<(), E> {
    let requests = requests();
    match requests.recv() {
        Ok(Ok(Request::Open)) => {
            let (device, mut runner) = open()?;
            Ok(run_jobs(&device, &mut runner, &requests)?)
        }
        Ok(Ok(Request::Start { plan, tokens })) => {
            // Where nobody listens the end of stdin follows.
            start(&plan, tokens, &mut || drop(say(&Reply::Started)))
        }
        Ok(_) => Ok(say(&Reply::Stopped { why: "it is not known what to open".to_owned() })?),
        Err(_) => Ok(()),
    }
}

/// Runs the jobs that are asked for.
fn run_jobs(device: &Device, runner: &mut dyn Runner, requests: &Receiver<Asked>) -> io::Result<()> {
    let (fingerprint, limits) = (device.fingerprint().clone(), Box::new(device.limits().clone()));
    say(&Reply::Ready {
        device: fingerprint,
        limits,
        clock: runner.clock(),
        doubt: runner.doubt().map(str::to_owned),
    })?;
    for request in requests {
        let ran = match request {
            Ok(Request::Run { job, site, plans, effort }) => {
                let plans: Plans = plans.into_iter().map(|plan| (PlanId::of(&plan), plan)).collect();
                // Where nobody listens the end of stdin follows.
                let progress = &|phase| drop(say(&Reply::Phase { phase }));
                runner.run(Assignment { job: &job, site: site.as_deref(), plans: &plans, effort, progress })
            }
            Ok(Request::CompileAhead { site, kernels }) => runner.compile_ahead(&site, &kernels),
            Ok(Request::Open | Request::Start { .. }) => {
                say(&Reply::Stopped { why: "a runner is open already".to_owned() })?;
                continue;
            }
            Err(wrong) => {
                say(&Reply::Stopped { why: format!("a request cannot be read: {wrong}") })?;
                continue;
            }
        };
        say(&match ran {
            Ok((outcome, cost)) => Reply::Ended { outcome: Box::new(outcome), cost },
            Err(error) => Reply::Stopped { why: error.to_string() },
        })?;
    }
    Ok(())
}

/// A request, or why it is none.
type Asked = Result<Request, serde_json::Error>;

/// What stdin asks for, read on a thread of its own.
fn requests() -> Receiver<Asked> {
    let (send, requests) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n').map_while(Result::ok) {
            if send.send(serde_json::from_slice(&line)).is_err() {
                break;
            }
        }
        drop(send);
        thread::sleep(GRACE);
        // Whatever waits for a kernel would hold up an orderly end.
        std::process::abort();
    });
    requests
}

fn say(reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()
}
