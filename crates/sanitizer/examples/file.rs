//! Runs any shader, with 1 MB of zeros at every binding of group 0.
//! `cargo run -p wgoose-sanitizer --example file -- SHADER.wgsl WORKGROUPS [SUBGROUP_SIZE]`

use wgoose_sanitizer::{Buffer, Dispatch, Order, SanitizerError, Shader};

const BYTES: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, workgroups, rest @ ..] = &arguments[..] else {
        return Err("SHADER.wgsl WORKGROUPS [SUBGROUP_SIZE]".into());
    };
    let subgroup_size = rest.first().map_or(Ok(32), |size| size.parse())?;
    let shader = Shader::parse(&std::fs::read_to_string(file)?)?;
    let mut dispatch = Dispatch::new([workgroups.parse()?, 1, 1]).with_subgroups_of(subgroup_size);
    // Whatever is missing is bound.
    let report = loop {
        match shader.check(&dispatch, &[Order::Forward, Order::Backward, Order::Random { seed: 1 }]) {
            Err(SanitizerError::Unbound { group: 0, binding, .. }) => {
                dispatch = dispatch.bind(binding, Buffer::of(vec![0; BYTES]));
            }
            other => break other?,
        }
    };
    report.findings.iter().for_each(|finding| println!("{finding}"));
    println!("{} findings, {} steps", report.findings.len(), report.steps);
    Ok(())
}
