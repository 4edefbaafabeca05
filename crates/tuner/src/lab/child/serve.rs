//! The child's side: jobs from stdin, one after another; outcomes to stdout.

use super::wire::{Reply, Request};
use crate::job::{PlanId, Plans};
use crate::lab::{Assignment, Lab};
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;
use wgoose_runtime::Device;

/// How long a job may go on once nobody waits for it.
const GRACE: Duration = Duration::from_secs(2);

/// Runs what stdin asks for in a lab on that device, until stdin ends. Then the process ends soon, even in the middle of a job
/// that never does: the parent may have been killed.
///
/// # Errors
/// Stdout is closed.
pub fn serve(device: &Device, lab: &mut dyn Lab) -> io::Result<()> {
    let requests = requests();
    let (fingerprint, limits) = (device.fingerprint().clone(), Box::new(device.limits().clone()));
    say(&Reply::Ready { device: fingerprint, limits, clock: lab.clock(), doubt: lab.doubt().map(str::to_owned) })?;
    for request in requests {
        let ran = match request {
            Ok(Request::Run { job, site, plans, effort }) => {
                let plans: Plans = plans.into_iter().map(|plan| (PlanId::of(&plan), plan)).collect();
                // Where nobody listens the end of stdin follows.
                let progress = &|phase| drop(say(&Reply::Phase { phase }));
                lab.run(Assignment { job: &job, site: site.as_deref(), plans: &plans, effort, progress })
            }
            Ok(Request::CompileAhead { site, kernels }) => lab.compile_ahead(&site, &kernels),
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

/// What stdin asks for, read on a thread of its own.
fn requests() -> Receiver<Result<Request, serde_json::Error>> {
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
