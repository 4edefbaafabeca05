//! `wgoose dev mcp`: the judge of kernels as tools of the Model Context Protocol, over standard input and output.

mod child;
mod tools;

use crate::failure::Failure;
use child::Workplace;
use rmcp::ServiceExt;
use rmcp::transport::stdio;
use std::path::PathBuf;
use tools::Tools;

/// Serve the kernel tools to a program over stdio (Model Context Protocol): list, card, check, time, compare.
///
/// Each call is a process, which is killed when its time is over. Kernels that are given as text are
/// written below --folder, and nothing is written anywhere else.
#[derive(clap::Args)]
#[command(after_help = "Example of a client's configuration:
  {\"mcpServers\": {\"wgoose\": {\"command\": \"wgoose\", \"args\": [\"dev\", \"mcp\", \"--folder\", \"kernels\"]}}}")]
pub(crate) struct Args {
    /// Folder for the kernels that are given, and all else that is written. It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// Most seconds that a call may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// GPU adapter, as for the other verbs.
    #[arg(long)]
    device: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let tools = Tools::new(Workplace::new(&args.folder, args.limit, args.device.clone())?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let served = tools.serve(stdio()).await?;
        served.waiting().await?;
        Ok(())
    })
}
