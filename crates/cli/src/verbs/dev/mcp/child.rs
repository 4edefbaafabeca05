//! A call's process: this program again, killed when its time is over.

use crate::failure::Failure;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use wgoose_measure::judge::Verdict;

/// Where calls run and write.
#[derive(Clone, Debug)]
pub(super) struct Workplace {
    folder: PathBuf,
    limit: Duration,
    device: Option<String>,
}

/// What a call came to.
pub(super) struct Ended {
    /// Whether it did what it was asked for; what it says of a kernel may be that it is wrong.
    pub(super) is_done: bool,
    pub(super) text: String,
}

impl Workplace {
    pub(super) fn new(folder: &Path, limit: u64, device: Option<String>) -> Result<Self, Failure> {
        let named = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(folder.join("kernels")).map_err(named)?;
        let folder = folder.canonicalize().map_err(named)?;
        Ok(Workplace { folder, limit: Duration::from_secs(limit), device })
    }

    /// The folder of kernels.
    pub(super) fn kernels(&self) -> PathBuf {
        self.folder.join("kernels")
    }

    /// Writes a kernel's file.
    pub(super) fn write(&self, op: &str, name: &str, text: &str) -> Result<(), String> {
        let file = self.kernels().join("ops").join(op).join(name).with_extension("wgsl");
        let failed = |e: std::io::Error| format!("{}: {e}", file.display());
        std::fs::create_dir_all(file.parent().unwrap_or(&self.folder)).map_err(failed)?;
        wgoose_files::replace(&file, |out| std::io::Write::write_all(out, text.as_bytes())).map(drop).map_err(failed)
    }

    /// Whether a kernel was given yet.
    pub(super) fn has_kernels(&self) -> bool {
        self.kernels().join("ops").is_dir()
    }

    /// Runs this program with arguments, for no longer than `seconds` if that is less than the limit of all calls.
    pub(super) async fn run(&self, arguments: &[String], seconds: Option<u64>) -> Result<Ended, String> {
        let limit = seconds.map_or(self.limit, |seconds| self.limit.min(Duration::from_secs(seconds)));
        let program = std::env::current_exe().map_err(|e| format!("this program is not to be found: {e}"))?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder).kill_on_drop(true);
        command.env("WGOOSE_CACHE_DIR", self.folder.join("cache")).env("WGOOSE_DATA_DIR", self.folder.join("data"));
        if let Some(device) = &self.device {
            command.args(["--device", device]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|e| format!("no process can be started: {e}"))?;
        let output = match tokio::time::timeout(limit, child.wait_with_output()).await {
            Err(_) => {
                let reason = format!("it did not end within {} s and was killed", limit.as_secs());
                return Ok(Ended { is_done: true, text: judged(Verdict::Timeout, &reason) });
            }
            Ok(output) => output.map_err(|e| format!("the process of the call: {e}"))?,
        };
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr);
        Ok(match output.status.code() {
            None => {
                text.push_str(&judged(Verdict::Crashed, &format!("its process ended: {}", output.status)));
                Ended { is_done: true, text }
            }
            Some(0) => Ended { is_done: true, text },
            Some(code) if Verdict::ALL.iter().any(|verdict| i32::from(verdict.exit_code()) == code) => {
                Ended { is_done: true, text }
            }
            Some(_) => Ended { is_done: false, text: format!("{text}{said}") },
        })
    }
}

fn judged(verdict: Verdict, reason: &str) -> String {
    let line: Value = json!({ "verdict": verdict, "about": "all", "reason": reason });
    format!("{line}\n")
}
