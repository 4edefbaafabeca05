//! `cargo xtask clients`: the server, asked by clients that people use: curl, OpenAI's client for Node, LangChain.

use crate::shell::{self, Error, Result, command};
use crate::wgoose::{Profile, Wgoose, target};
use crate::{demo, python};
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;

/// The folder of the clients' programs.
const FOLDER: &str = "crates/serve/clients";

/// The key of the server.
const KEY: &str = "secret";

/// A server, for as long as this lives.
struct Served {
    child: Child,
    base: String,
}

impl Served {
    fn begin(wgoose: &Wgoose, options: &[&str]) -> Result<Self> {
        let mut serve = wgoose.command(["serve", demo::TRAINED, "--port", "0", "--backend", "cpu"]);
        serve.args(options).stderr(Stdio::piped());
        let mut child = serve.spawn().map_err(|e| Error::Other(format!("wgoose serve does not start: {e}")))?;
        let mut lines = BufReader::new(child.stderr.take().ok_or_else(silent)?).lines();
        let base = lines.by_ref().map_while(std::result::Result::ok).find_map(|line| {
            let rest = line.strip_prefix("listening at ")?;
            Some(rest.split(',').next()?.to_owned())
        });
        let base = base.ok_or_else(silent)?;
        // The server waits if nobody reads what it prints.
        thread::spawn(move || lines.for_each(drop));
        Ok(Served { child, base })
    }
}

fn silent() -> Error {
    Error::Other("wgoose serve ended before it listened".to_owned())
}

impl Drop for Served {
    fn drop(&mut self) {
        // An error: it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the clients.
///
/// # Errors
/// curl, Node with npm or Python is missing, packages cannot be installed, or a client fails.
pub(crate) fn run() -> Result<()> {
    let wgoose = Wgoose::build(Profile::Dev)?;
    let states = target().join("clients-states").to_string_lossy().into_owned();
    let served = Served::begin(&wgoose, &["--api-key", KEY, "--state-dir", &states])?;
    curl(&served.base)?;
    node(&served.base)?;
    let interpreter = python::clients(&format!("{FOLDER}/requirements.txt"))?;
    shell::run(&mut command(&interpreter, [&format!("{FOLDER}/langchain.py"), &served.base, KEY]))?;
    page(&Served::begin(&wgoose, &["--state-dir", &states])?.base, &interpreter)?;
    println!("all clients were answered");
    Ok(())
}

/// The chat page in a headless Chromium.
fn page(base: &str, interpreter: &Path) -> Result<()> {
    let chromium = env::var("CHROMIUM").unwrap_or_else(|_| "/usr/bin/chromium".to_owned());
    if !Path::new(&chromium).exists() {
        println!("the page is not tested: there is no {chromium}; install Chromium, or set CHROMIUM");
        return Ok(());
    }
    let (test, server) = (format!("{FOLDER}/page/test_page.py"), base.trim_end_matches("/v1"));
    shell::run(command(interpreter, [&*test, server, "crates/serve/src/page.html"]).env("CHROMIUM", chromium))
}

/// curl returns when a stream ends, though the connection stays open.
fn curl(base: &str) -> Result<()> {
    let (url, key) = (format!("{base}/completions"), format!("Authorization: Bearer {KEY}"));
    let body = r#"{"prompt": "Honk", "max_tokens": 8, "stream": true}"#;
    let asked = ["--silent", "--show-error", "--fail", "--no-buffer", "--max-time", "60", "-H", &key, "-d", body, &url];
    let answer = shell::capture(&mut command("curl", asked))?;
    match answer.trim_end().ends_with("data: [DONE]") {
        true => Ok(()),
        false => Err(Error::Other(format!("curl was answered: {answer}"))),
    }
}

fn node(base: &str) -> Result<()> {
    let folder = target().join("clients-node");
    fs::create_dir_all(&folder).map_err(|e| Error::file("make", &folder, e))?;
    for name in ["package.json", "openai.mjs"] {
        let (from, to) = (Path::new(FOLDER).join(name), folder.join(name));
        fs::copy(&from, &to).map_err(|e| Error::file("copy", &from, e))?;
    }
    shell::run(command("npm", ["install", "--silent", "--no-audit", "--no-fund"]).current_dir(&folder))?;
    shell::run(command("node", ["openai.mjs", base, KEY]).current_dir(&folder))
}
