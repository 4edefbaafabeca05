//! `wgoose devices`

use crate::failure::Failure;
use wgoose_runtime::{AdapterIdentity, adapters};

/// List the GPU adapters of this machine; the first is the default.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let adapters = adapters();
    if adapters.is_empty() {
        return Err(wgoose_runtime::RuntimeError::NoAdapter.into());
    }
    if args.json {
        let rows: Vec<_> = adapters
            .iter()
            .map(|a| {
                serde_json::json!({
                    "device": a.fingerprint, "pci": a.identity.pci, "uuid": a.identity.uuid, "kind": a.kind,
                    "limits": a.limits, "timestamps": a.timestamps,
                })
            })
            .collect();
        outln!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    for (i, a) in adapters.iter().enumerate() {
        let l = &a.limits;
        let features: Vec<String> = l.features.iter().map(ToString::to_string).collect();
        listln!("{i}: {} ({}, {}, {})", a.fingerprint.adapter, a.kind, a.fingerprint.backend, a.fingerprint.driver);
        let AdapterIdentity { pci, uuid, .. } = &a.identity;
        let known = [pci.as_ref().map(|pci| format!("PCI {pci}")), uuid.as_ref().map(|uuid| format!("UUID {uuid}"))];
        let known: Vec<String> = known.into_iter().flatten().collect();
        if !known.is_empty() {
            listln!("   {}", known.join(", "));
        }
        outln!(
            "   bindings up to {} MiB, buffers up to {} MiB, {} threads and {} KiB memory a workgroup",
            l.storage_binding >> 20,
            l.buffer >> 20,
            l.workgroup_threads,
            l.workgroup_memory >> 10,
        );
        outln!(
            "   features: {}{}",
            if features.is_empty() { "none".to_owned() } else { features.join(", ") },
            if a.timestamps { ", timestamps" } else { "" },
        );
    }
    Ok(())
}
