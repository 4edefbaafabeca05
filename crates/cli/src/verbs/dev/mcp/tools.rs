//! The five tools.

use super::child::{Ended, Workplace};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use rmcp::{ServerHandler, schemars, tool, tool_handler, tool_router};
use serde::Deserialize;
use wgoose_kernels::NoSuchVariant;

/// The tools, and where they run.
#[derive(Clone)]
pub(super) struct Tools {
    workplace: Workplace,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct CardOf {
    /// The op, such as matmul.
    op: String,
    /// A model file, or a published size such as 0.1B.
    model: Option<String>,
    /// Matrix format of a model that is given by size, such as F16 or Q4_K.
    format: Option<String>,
    /// Tokens of the passes in which the op is looked at. Default: 1 and 64.
    tokens: Option<Vec<u32>>,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Kernel {
    /// The op, such as matmul.
    op: String,
    /// The kernel's name: small letters, digits and underscores.
    name: String,
    /// The WGSL text of its file. Without it, the kernel of that name: one that was given before, or a built-in one.
    text: Option<String>,
    /// Seed of all random numbers. Default: another one each time.
    seed: Option<u64>,
    /// Most seconds that the call may take.
    seconds: Option<u64>,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct TimedKernel {
    #[serde(flatten)]
    kernel: Kernel,
    /// A model file, or a published size such as 0.1B.
    model: Option<String>,
    /// Matrix format of a model that is given by size, such as F16 or Q4_K.
    format: Option<String>,
    /// Tokens of the passes in which the op is timed. Default: 1 and 64.
    tokens: Option<Vec<u32>>,
    /// Seconds for varying tunables at each op instance, shared by all variants of the op.
    budget: Option<u64>,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Compared {
    /// The model file.
    model: String,
    /// The op, such as matmul.
    op: String,
    /// The kernel's name.
    name: String,
    /// The WGSL text of its file, if it was not given before.
    text: Option<String>,
    /// Seconds for the samples.
    budget: Option<u64>,
}

#[tool_router]
impl Tools {
    pub(super) fn new(workplace: Workplace) -> Self {
        Tools { workplace }
    }

    #[tool(description = "All ops and their kernels, with the idea of each and its tunables.")]
    async fn list(&self) -> Result<String, String> {
        let mut arguments = words("dev kernel");
        self.kernels(&mut arguments);
        self.call(&arguments, None).await
    }

    #[tool(
        description = "What somebody needs to write a kernel of an op: definition, operands, tolerance, roofline, best known kernel, rules of the file."
    )]
    async fn card(&self, Parameters(of): Parameters<CardOf>) -> Result<String, String> {
        known_op(&of.op)?;
        let mut arguments = words("dev kernel");
        arguments.extend([of.op, "--card".to_owned(), "--json".to_owned(), "--budget".to_owned(), "3".to_owned()]);
        model_of(&mut arguments, of.model, of.format, of.tokens);
        self.kernels(&mut arguments);
        self.call(&arguments, None).await
    }

    #[tool(
        description = "Is a kernel right? The sanitizer, every number of rows, every choice of its tunables and random cases, against the op's reference. The last line has the verdict."
    )]
    async fn check(&self, Parameters(kernel): Parameters<Kernel>) -> Result<String, String> {
        let seconds = kernel.seconds;
        let mut arguments = self.judged(kernel)?;
        arguments.extend(words("--tokens 0"));
        self.call(&arguments, seconds).await
    }

    #[tool(
        description = "Is a kernel right, and how fast beside the others of its op? At each op instance of a model its verdict with an interval."
    )]
    async fn time(&self, Parameters(timed): Parameters<TimedKernel>) -> Result<String, String> {
        let seconds = timed.kernel.seconds;
        let mut arguments = self.judged(timed.kernel)?;
        model_of(&mut arguments, timed.model, timed.format, timed.tokens);
        if let Some(budget) = timed.budget {
            arguments.extend(["--budget".to_owned(), budget.to_string()]);
        }
        self.call(&arguments, seconds).await
    }

    #[tool(
        description = "A whole model with a kernel in the place of its op's, beside the plan in use: tokens per second in interleaved pairs, after the quality gate."
    )]
    async fn compare(&self, Parameters(compared): Parameters<Compared>) -> Result<String, String> {
        known_op(&compared.op)?;
        if let Some(text) = &compared.text {
            self.write(&compared.op, &compared.name, text)?;
        }
        let mut arguments = vec!["compare".to_owned(), compared.model, "--variant".to_owned()];
        arguments.extend([format!("{}/{}", compared.op, compared.name), "--json".to_owned()]);
        if let Some(budget) = compared.budget {
            arguments.extend(["--budget".to_owned(), budget.to_string()]);
        }
        self.kernels(&mut arguments);
        self.call(&arguments, None).await
    }
}

impl Tools {
    /// The arguments that judge a kernel, whose text is written if it is given.
    fn judged(&self, Kernel { op, name, text, seed, .. }: Kernel) -> Result<Vec<String>, String> {
        known_op(&op)?;
        if let Some(text) = &text {
            self.write(&op, &name, text)?;
        }
        let mut arguments = words("dev kernel");
        arguments.extend([format!("{op}/{name}"), "--json".to_owned()]);
        if let Some(seed) = seed {
            arguments.extend(["--seed".to_owned(), seed.to_string()]);
        }
        self.kernels(&mut arguments);
        Ok(arguments)
    }

    fn write(&self, op: &str, name: &str, text: &str) -> Result<(), String> {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || !name.chars().all(is_part) {
            let why = format!("'{name}' is no name of a kernel: small letters, digits and underscores");
            return Err(why);
        }
        self.workplace.write(op, name, text)
    }

    fn kernels(&self, arguments: &mut Vec<String>) {
        if self.workplace.has_kernels() {
            arguments.extend(["--kernels".to_owned(), self.workplace.kernels().display().to_string()]);
        }
    }

    async fn call(&self, arguments: &[String], seconds: Option<u64>) -> Result<String, String> {
        let Ended { is_done, text } = self.workplace.run(arguments, seconds).await?;
        if is_done { Ok(text) } else { Err(text) }
    }
}

#[tool_handler]
impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::default();
        info.capabilities = ServerCapabilities::builder().enable_tools().build();
        info.server_info = Implementation::new("wgoose", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(
            "Judges WGSL kernels of RWKV-7's ops on this machine's GPU. Begin with list, then card of an op; write a \
             kernel and check it; time it beside the others; compare it in a whole model."
                .to_owned(),
        );
        info
    }
}

fn known_op(op: &str) -> Result<(), String> {
    NoSuchVariant::unless_op(op).map(drop).map_err(|error| error.to_string())
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn model_of(arguments: &mut Vec<String>, model: Option<String>, format: Option<String>, tokens: Option<Vec<u32>>) {
    let tokens = tokens.map(|tokens| tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    for (option, value) in [("--model", model), ("--format", format), ("--tokens", tokens)] {
        arguments.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
    }
}
