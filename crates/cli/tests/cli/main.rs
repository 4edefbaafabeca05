//! The built `wgoose`: what it prints, what it writes, how it fails.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod adapters;
mod auto_formats;
mod bench;
mod bench_against;
mod bench_compare;
mod binary;
mod chat;
mod cold;
mod compare;
mod convert;
mod demo;
mod embed;
mod embedding_heads;
mod eval;
mod experiments;
mod generate;
mod goldens;
mod kernels;
mod limits;
mod memory;
mod not_finite;
mod plans;
mod profiles;
mod raw_bytes;
mod readme;
mod refusals;
mod reports;
mod resume;
#[cfg(unix)]
mod serve;
mod serve_access_log;
mod serve_leaving;
mod serve_lightning;
mod serve_sampling;
mod serve_states;
mod serve_structure;
mod serve_template;
mod serve_tools;
mod served;
mod shards;
mod signals;
mod state_format;
mod timeline;
mod trace;
mod trials;
mod verbs;
mod workloads;
