//! `cargo xtask kills`: ends every verb that writes with SIGKILL, at moments spread over its run. A file with its final
//! name is whole, and the next run continues.

mod sweep;

use crate::shell::{Error, Result, command};
use crate::vulkan;
use crate::wgoose::{Profile, Wgoose, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Instant;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Moments at which each verb is killed
    #[arg(long, default_value_t = 30)]
    kills: u32,
    /// Only the verb of this name
    #[arg(long)]
    only: Option<String>,
    /// Kill sweeps for a plan of this model instead, --kills times, in jobs of every kind
    #[arg(long, value_name = "MODEL", conflicts_with = "only")]
    sweep: Option<PathBuf>,
    /// The adapter of these sweeps
    #[arg(long, requires = "sweep")]
    device: Option<String>,
    /// Budget of these sweeps, in seconds
    #[arg(long, requires = "sweep")]
    budget: Option<u32>,
    /// A tool that is already built
    #[arg(long, value_name = "FILE")]
    tool: Option<PathBuf>,
}

/// A verb that writes.
struct Victim {
    name: &'static str,
    /// The command, words separated by spaces.
    line: &'static str,
    /// Typed into it: the first line, and the last one a hundred times.
    input: &'static str,
    /// The file that it makes, in the folder of the model.
    makes: &'static str,
    /// A command that reads the file and fails if it is not whole; none where the same bytes come every time.
    reads: Option<&'static str>,
    /// Files of lines, each of which is JSON but for the last.
    lines: Option<&'static str>,
    /// Files that an interrupted run may leave, and the next one takes up or removes.
    keeps: bool,
}

const MODEL: &str = "--layers 2 --width 128 --ffn 256 --vocab 4096 --ranks 16,16,16,16";

const VICTIMS: [Victim; 8] = [
    Victim {
        name: "synth",
        line: "dev synth out.gguf --layers 4 --width 512 --vocab 16384 --mix F16 --seed 3",
        input: "",
        makes: "out.gguf",
        reads: None,
        lines: None,
        keeps: false,
    },
    Victim {
        name: "convert",
        line: "convert large.gguf out.gguf --to Q8_0 --check --force",
        input: "",
        makes: "out.gguf",
        reads: None,
        lines: None,
        keeps: false,
    },
    Victim {
        name: "logits",
        line: "dev logits m.gguf --tokens ids.json --out out.npy --backend cpu",
        input: "",
        makes: "out.npy",
        reads: None,
        lines: None,
        keeps: false,
    },
    Victim {
        name: "embed",
        line: "embed m.gguf --file texts.txt --out out.npy --backend cpu",
        input: "",
        makes: "out.npy",
        reads: None,
        lines: None,
        keeps: true,
    },
    Victim {
        name: "store",
        line: "embed m.gguf --file texts.txt --store out.store --backend cpu",
        input: "",
        makes: "out.store",
        reads: Some("embed m.gguf goose --store out.store --backend cpu"),
        lines: None,
        keeps: true,
    },
    Victim {
        name: "bench",
        line: "bench m.gguf --title a --change b --save out.md --cache . --backend cpu --prefill-tokens 8 --decode-tokens 4 \
               --runs 1",
        input: "",
        makes: "out.md",
        reads: Some(
            "bench m.gguf --title a --change c --save out.md --cache . --backend cpu --prefill-tokens 8 \
                     --decode-tokens 4 --runs 1",
        ),
        lines: Some("out.jsonl"),
        keeps: true,
    },
    Victim {
        name: "tune",
        line: "tune m.gguf --out out.ron --budget 4",
        input: "",
        makes: "out.ron",
        reads: Some("info out.ron"),
        lines: Some("out.jsonl"),
        keeps: true,
    },
    Victim {
        name: "chat",
        line: "chat m.gguf --backend cpu --max-tokens 2",
        input: "hi\n/save out.st\n",
        makes: "out.st",
        reads: None,
        lines: None,
        keeps: false,
    },
];

pub(crate) fn run(args: &Args) -> Result<()> {
    if !cfg!(unix) {
        return Err(Error::Other("a process is killed as on Unix".into()));
    }
    vulkan::ensure()?;
    let tool = match &args.tool {
        Some(tool) => fs::canonicalize(tool).map_err(|e| Error::file("find", tool, e))?,
        None => {
            let built = Wgoose::build(Profile::Dev)?;
            fs::canonicalize(built.path()).map_err(|e| Error::file("find", built.path(), e))?
        }
    };
    if let Some(model) = &args.sweep {
        let model = fs::canonicalize(model).map_err(|e| Error::file("find", model, e))?;
        let folder = emptied("sweep")?;
        let folder = fs::canonicalize(&folder).map_err(|e| Error::file("find", &folder, e))?;
        let budget = args.budget.map(|seconds| format!("--budget {seconds}")).unwrap_or_default();
        let device = args.device.as_ref().map(|device| format!("--device {device}")).unwrap_or_default();
        let options = [budget, device].join(" ");
        return sweep::kill(&tool, &folder, (&model, &options), args.kills);
    }
    let wanted = |victim: &&Victim| args.only.as_ref().is_none_or(|only| only == victim.name);
    for victim in VICTIMS.iter().filter(wanted) {
        let folder = emptied(victim.name)?;
        let place = Place { tool: &tool, folder: &folder, victim };
        place.prepare()?;
        place.kill(args.kills)?;
    }
    Ok(())
}

/// An empty folder.
fn emptied(name: &str) -> Result<PathBuf> {
    let folder = target().join("kills").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| Error::file("remove", &folder, e))?;
    }
    fs::create_dir_all(&folder).map_err(|e| Error::file("create", &folder, e))?;
    Ok(folder)
}

/// A folder in which a verb is killed.
struct Place<'a> {
    tool: &'a Path,
    folder: &'a Path,
    victim: &'a Victim,
}

impl Place<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = command(self.tool, line.split_whitespace());
        command.current_dir(self.folder).env("WGOOSE_DATA_DIR", self.file("data"));
        command.env("WGOOSE_CACHE_DIR", self.file("cache"));
        command
    }

    fn start(&self) -> Result<Child> {
        let input = self.file("input");
        let (first, last) = self.victim.input.split_once('\n').unwrap_or_default();
        fs::write(&input, format!("{first}\n{}", last.repeat(100))).map_err(|e| Error::file("write", &input, e))?;
        let input = fs::File::open(&input).map_err(|e| Error::file("open", &input, e))?;
        let mut command = self.command(self.victim.line);
        command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|source| Error::Start { command: self.victim.line.into(), source })
    }

    /// Runs a command that must succeed.
    fn succeed(&self, line: &str) -> Result<Output> {
        let start = |source| Error::Start { command: line.into(), source };
        let output = self.command(line).stdin(Stdio::null()).output().map_err(start)?;
        match output.status.success() {
            true => Ok(output),
            false => Err(self.wrong(&format!("`{line}` fails: {}", String::from_utf8_lossy(&output.stderr)))),
        }
    }

    fn wrong(&self, what: &str) -> Error {
        Error::Other(format!("{} in {}: {what}", self.victim.name, self.folder.display()))
    }

    fn prepare(&self) -> Result<()> {
        self.succeed(&format!("dev synth m.gguf {MODEL}"))?;
        if self.victim.name == "convert" {
            self.succeed("dev synth large.gguf --layers 4 --width 512 --vocab 16384 --mix F16")?;
        }
        let texts: Vec<String> = (0..400).map(|i| format!("{i} geese fly over the lake, and then {i} more")).collect();
        let ids: Vec<String> = (0..1000).map(|i| (i % 4096).to_string()).collect();
        for (name, text) in [("texts.txt", texts.join("\n")), ("ids.json", format!("[{}]", ids.join(",")))] {
            fs::write(self.file(name), text).map_err(|e| Error::file("write", &self.file(name), e))?;
        }
        Ok(())
    }

    /// Runs it once to the end, then kills it at moments of that time.
    fn kill(&self, kills: u32) -> Result<()> {
        let begun = Instant::now();
        let status =
            self.start()?.wait().map_err(|source| Error::Start { command: self.victim.line.into(), source })?;
        if !status.success() {
            return Err(self.wrong(&format!("it fails without a kill ({status})")));
        }
        let took = begun.elapsed();
        let makes = self.file(self.victim.makes);
        let whole = fs::read(&makes).map_err(|e| Error::file("read", &makes, e))?;
        let (mut killed, mut named) = (0, 0);
        for moment in 0..kills {
            self.remove_made()?;
            let mut child = self.start()?;
            sleep(took.mul_f64((f64::from(moment) + 0.5) / f64::from(kills)));
            // One that has ended already is as good: it must be whole then.
            killed += u32::from(child.kill().is_ok() && child.wait().is_ok_and(|status| status.code().is_none()));
            named += u32::from(makes.exists());
            self.check(&whole, moment)?;
        }
        println!(
            "{:<8} killed {killed} of {kills} times in {took:.1?}: {named} files were there, all whole",
            self.victim.name
        );
        Ok(())
    }

    /// What has its name is whole; the next run goes on, and leaves nothing else.
    fn check(&self, whole: &[u8], moment: u32) -> Result<()> {
        let makes = self.file(self.victim.makes);
        let is_whole = |when: &str| match fs::read(&makes) {
            Err(_) => Ok(false),
            Ok(found) if self.victim.reads.is_some() || found == whole => Ok(true),
            Ok(found) => {
                let of = whole.len();
                Err(self.wrong(&format!(
                    "kill {moment}: {} has other bytes {when} ({} of {of})",
                    makes.display(),
                    found.len()
                )))
            }
        };
        is_whole("after the kill")?;
        if let (true, Some(reads)) = (makes.exists(), self.victim.reads) {
            self.succeed(reads)?;
        }
        if let Some(lines) = self.victim.lines.map(|lines| self.file(lines)).filter(|lines| lines.exists()) {
            let text = fs::read_to_string(&lines).map_err(|e| Error::file("read", &lines, e))?;
            let ended = text.rfind('\n').map_or("", |end| &text[..end]);
            if ended.lines().any(|line| !line.starts_with('{') || !line.ends_with('}')) {
                return Err(self.wrong(&format!("kill {moment}: a line of {} is not whole", lines.display())));
            }
        }
        let again = self.start()?.wait().is_ok_and(|status| status.success());
        if !again || !is_whole("after the next run")? {
            return Err(self.wrong(&format!("kill {moment}: the next run does not go on")));
        }
        let names = fs::read_dir(self.folder).map_err(|e| Error::file("list", self.folder, e))?;
        let left = names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let left: Vec<String> = left.filter(|name| name.contains(".part")).collect();
        match left.is_empty() {
            true => Ok(()),
            false => Err(self.wrong(&format!("kill {moment}: the next run leaves {}", left.join(", ")))),
        }
    }

    /// Removes what the run before has made, but for files that grow over several runs.
    fn remove_made(&self) -> Result<()> {
        let mut made = vec![self.file(self.victim.makes)];
        if !self.victim.keeps {
            made.extend(self.victim.lines.map(|lines| self.file(lines)));
        }
        for path in made.iter().filter(|path| path.exists()) {
            fs::remove_file(path).map_err(|e| Error::file("remove", path, e))?;
        }
        Ok(())
    }
}
