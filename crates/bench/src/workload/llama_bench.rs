//! `llama-bench` of llama.cpp, a program that the user has: run on the same file for the same work, its samples beside ours.

use super::{Job, Reference};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::str::FromStr;

/// The program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlamaBench(PathBuf);

/// A peer of which nothing is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown program '{0}': expected llama-bench or llama-bench=PATH")]
pub struct UnknownPeer(String);

impl FromStr for LlamaBench {
    type Err = UnknownPeer;

    fn from_str(text: &str) -> Result<Self, UnknownPeer> {
        match text.split_once('=') {
            None if text == "llama-bench" => Ok(LlamaBench(text.into())),
            Some(("llama-bench", path)) if !path.is_empty() => Ok(LlamaBench(path.into())),
            _ => Err(UnknownPeer(text.to_owned())),
        }
    }
}

/// Why a peer's program gave no figures.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Prompts that are read alone, and one sequence that writes, are all that it measures.
    #[error(
        "llama-bench measures prompts and one sequence that writes: ask for --prompt-tokens, --decode 1, or neither"
    )]
    NothingInCommon,
    /// It is not there, or is no program.
    #[error("cannot start '{}': {why}; install llama.cpp, or name the program: --against llama-bench=PATH", .program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// It gave up.
    #[error("'{}' failed ({status}): {said}", .program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// The last line on its stderr.
        said: String,
    },
    /// What it printed is not what llama-bench prints.
    #[error("'{}' printed something else than the results of llama-bench -o json: {why}", .program.display())]
    Unreadable {
        /// The program.
        program: PathBuf,
        /// What JSON says.
        why: serde_json::Error,
    },
    /// Some of the work is not among the results.
    #[error("'{}' printed no times for: {job}", .program.display())]
    Absent {
        /// The program.
        program: PathBuf,
        /// What is absent.
        job: Job,
    },
}

/// One result, as `llama-bench -o json` prints it, of which there is more.
#[derive(Deserialize)]
struct Measured {
    build_commit: String,
    build_number: u32,
    #[serde(default)]
    backends: String,
    #[serde(default)]
    cpu_info: String,
    #[serde(default)]
    gpu_info: String,
    n_prompt: usize,
    n_gen: usize,
    samples_ns: Vec<u64>,
}

impl LlamaBench {
    /// Runs it once for all jobs that it can do: each with the medians and the samples, in milliseconds.
    ///
    /// # Errors
    /// It can do none of them, is not there, fails, or prints something else than its results.
    pub fn run(&self, model: &Path, jobs: &[Job], runs: usize) -> Result<Vec<(Job, Reference)>, PeerError> {
        let jobs: Vec<Job> =
            jobs.iter().copied().filter(|job| matches!(job, Job::Prompt(_) | Job::Decode(1, _))).collect();
        if jobs.is_empty() {
            return Err(PeerError::NothingInCommon);
        }
        let results = self.measured(model, &jobs, runs)?;
        let reference = |job: &Job| {
            let result = results.iter().find(|result| result.is_of(*job)).and_then(|result| result.reference(*job));
            let absent = || PeerError::Absent { program: self.0.clone(), job: *job };
            Ok((*job, result.ok_or_else(absent)?))
        };
        jobs.iter().map(reference).collect()
    }

    fn measured(&self, model: &Path, jobs: &[Job], runs: usize) -> Result<Vec<Measured>, PeerError> {
        let lengths = |of: fn(&Job) -> Option<usize>| {
            let lengths: Vec<String> = jobs.iter().filter_map(of).map(|n| n.to_string()).collect();
            // Without the option it would measure lengths of its own; 0 is none.
            if lengths.is_empty() { "0".to_owned() } else { lengths.join(",") }
        };
        let prompts = lengths(|job| if let Job::Prompt(tokens) = job { Some(*tokens) } else { None });
        let written = lengths(|job| if let Job::Decode(_, tokens) = job { Some(*tokens) } else { None });
        let mut command = Command::new(&self.0);
        command.arg("-m").arg(model).args(["-p", &prompts, "-n", &written, "-r", &runs.to_string(), "-o", "json"]);
        let program = || self.0.clone();
        let output =
            command.stdin(Stdio::null()).output().map_err(|why| PeerError::Start { program: program(), why })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing").trim();
            return Err(PeerError::Failed { program: program(), status: output.status, said: said.to_owned() });
        }
        serde_json::from_slice(&output.stdout).map_err(|why| PeerError::Unreadable { program: program(), why })
    }
}

impl Measured {
    fn is_of(&self, job: Job) -> bool {
        match job {
            Job::Prompt(tokens) => (self.n_prompt, self.n_gen) == (tokens, 0),
            Job::Decode(1, tokens) => (self.n_prompt, self.n_gen) == (0, tokens),
            _ => false,
        }
    }

    /// None without samples.
    fn reference(&self, job: Job) -> Option<Reference> {
        let samples: Vec<f64> = self.samples_ns.iter().map(|ns| *ns as f64 / 1e6).collect();
        let ms = super::Spread::of(&samples)?.median;
        let Measured { build_commit, build_number, backends, cpu_info, gpu_info, .. } = self;
        let backends = if backends.is_empty() { String::new() } else { format!(", {backends}") };
        let device = [gpu_info, cpu_info].into_iter().find(|info| !info.is_empty());
        Some(Reference {
            who: format!("llama.cpp b{build_number} ({build_commit}){backends}").into(),
            tokens_per_s: job.tokens().map(|tokens| tokens as f64 / ms * 1e3),
            ms: Some(ms),
            device: device.map_or("a device without a name", |device| device.trim()).to_owned().into(),
            source: "llama-bench on this file, just before".into(),
            samples_ms: samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of b6800, shortened.
    const PRINTED: &str = r#"[
  {"build_commit": "3a077146a", "build_number": 6800, "cpu_info": "AMD EPYC", "gpu_info": "NVIDIA H200", "backends": "CUDA",
   "model_filename": "m.gguf", "n_batch": 2048, "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ns": 60000000, "stddev_ns": 1,
   "avg_ts": 8533.3, "stddev_ts": 1.0, "samples_ns": [60000000, 62000000, 58000000], "samples_ts": [8533.3, 8258.1, 8827.6]},
  {"build_commit": "3a077146a", "build_number": 6800, "cpu_info": "AMD EPYC", "gpu_info": "", "backends": "CPU",
   "model_filename": "m.gguf", "n_prompt": 0, "n_gen": 128, "avg_ns": 640000000, "samples_ns": [640000000], "samples_ts": [200.0]}
]"#;

    #[test]
    fn programs_are_named() {
        assert_eq!("llama-bench".parse(), Ok(LlamaBench("llama-bench".into())));
        assert_eq!("llama-bench=/opt/l".parse(), Ok(LlamaBench("/opt/l".into())));
        for wrong in ["", "llama", "llama-bench=", "ollama=/opt/o"] {
            assert_eq!(wrong.parse::<LlamaBench>(), Err(UnknownPeer(wrong.into())));
        }
    }

    #[test]
    fn results_are_samples_of_a_job() {
        let results: Vec<Measured> = serde_json::from_str(PRINTED).unwrap();
        let found = |job| results.iter().find(|result| result.is_of(job)).and_then(|result| result.reference(job));
        let read = found(Job::Prompt(512)).unwrap();
        assert_eq!((&*read.who, &*read.device), ("llama.cpp b6800 (3a077146a), CUDA", "NVIDIA H200"));
        assert_eq!((read.ms, read.samples_ms), (Some(60.0), vec![60.0, 62.0, 58.0]));
        let written = found(Job::Decode(1, 128)).unwrap();
        assert_eq!((written.tokens_per_s, &*written.device), (Some(200.0), "AMD EPYC"));
        assert!(found(Job::Prompt(128)).is_none() && found(Job::Decode(8, 128)).is_none());
    }
}
