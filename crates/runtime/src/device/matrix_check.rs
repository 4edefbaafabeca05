//! Whether matrix units compute right with kernels as this program translates them. Adapters list them, and that is all they say: a
//! driver may refuse the patched modules (`pipelines/spirv`), or take them and compute something else. So a small kernel that uses
//! the same code as products runs once on numbers of which every sum is known; what it gives is kept on disk.

use super::Device;
use super::verdict::Verdict;
use crate::RuntimeError;
use crate::pipelines::{Pipeline, Store, compile_once};
use crate::timeline::Track;
use std::time::Duration;
use wgoose_kernels::matrix_check::{self, CHECKED, Numbers, TILES};
use wgoose_kernels::{Catalogue, Feature, Kernel, KernelError, Limits};

/// What failures name as their place.
const DURING: &str = "checking its matrix units";

/// How long a check may take, which takes a GPU less than a millisecond.
const MOST: Duration = Duration::from_secs(10);

/// A feature, and the kernel that checks it.
pub(super) type Check = (Feature, Result<Kernel, KernelError>);

/// How a check is run; an error says nothing about the next time.
pub(super) type Run = dyn Fn(&Device, Feature, &Kernel) -> Result<Verdict, RuntimeError>;

/// The checks of a device with these limits.
pub(super) fn checks(limits: &Limits) -> Vec<Check> {
    let asked = CHECKED.into_iter().filter(|feature| limits.features.contains(feature));
    // The kernels of the binary: it is the driver that is checked, not a folder.
    asked.filter_map(|f| Some((f, matrix_check::kernel(f, limits, &Catalogue::embedded())?))).collect()
}

/// Removes the features of a device that do not stand their check. Whether the device was lost over it.
pub(super) fn settle(device: &mut Device, checks: Vec<Check>, kept: Option<&Store>, run: &Run) -> bool {
    let mut is_lost = false;
    for (feature, kernel) in checks {
        let why = match kernel.map(|kernel| verdict(device, feature, &kernel, kept, run)) {
            Ok(Ok(Verdict::Right)) => continue,
            Ok(Ok(Verdict::Wrong(why))) => why,
            Ok(Err(error)) => {
                is_lost |= matches!(error, RuntimeError::Lost { .. });
                error.to_string()
            }
            Err(error) => error.to_string(),
        };
        let adapter = &device.summary.fingerprint.adapter;
        tracing::warn!("{adapter} lists {feature}, but failed their check, so they are not used: {why}");
        device.summary.limits.features.remove(&feature);
    }
    is_lost
}

/// What is kept of a check, or what it gives now.
fn verdict(
    device: &Device,
    feature: Feature,
    kernel: &Kernel,
    kept: Option<&Store>,
    run: &Run,
) -> Result<Verdict, RuntimeError> {
    if let Some(known) = kept.and_then(|store| Verdict::from_bytes(&store.load(&kernel.hash)?)) {
        return Ok(known);
    }
    let _span = device.timeline.span(Track::Device, "check matrix units");
    let verdict = run(device, feature, kernel)?;
    if let Some(store) = kept {
        store.save(&kernel.hash, &verdict.to_bytes());
    }
    Ok(verdict)
}

/// Compiles and runs a check. A refusal or other numbers are a verdict; a device that runs out of memory, hangs or is lost may do better
/// the next time.
pub(super) fn run(device: &Device, feature: Feature, kernel: &Kernel) -> Result<Verdict, RuntimeError> {
    let Some(numbers) = matrix_check::numbers(feature) else { return Ok(Verdict::Right) };
    let compiled = compile_once(device, kernel);
    device.check(DURING)?;
    let pipeline = match compiled {
        Ok(pipeline) => pipeline,
        Err(refusal) => return Ok(Verdict::Wrong(refusal.to_string())),
    };
    let internal = device.device.push_error_scope(wgpu::ErrorFilter::Internal);
    let validation = device.device.push_error_scope(wgpu::ErrorFilter::Validation);
    let computed = compute(device, kernel, &pipeline, &numbers);
    let refusals = [pollster::block_on(validation.pop()), pollster::block_on(internal.pop())];
    if let Some(refusal) = refusals.into_iter().flatten().next() {
        return Ok(Verdict::Wrong(refusal.to_string().replace('\n', " ")));
    }
    Ok(compared(&computed?, &numbers.want))
}

fn compared(got: &[f32], want: &[f32]) -> Verdict {
    match got.iter().zip(want).filter(|(got, want)| got != want).count() {
        0 if got.len() == want.len() => Verdict::Right,
        wrong => Verdict::Wrong(format!("{wrong} of {} numbers are wrong", want.len())),
    }
}

/// What the kernel leaves in y.
fn compute(device: &Device, kernel: &Kernel, pipeline: &Pipeline, numbers: &Numbers) -> Result<Vec<f32>, RuntimeError> {
    let filled = |label: &str, bytes: &[u8]| {
        let buffer = device.storage(label, bytes.len() as u64);
        device.queue.write_buffer(&buffer, 0, bytes);
        buffer
    };
    let buffers = [
        ("x", filled("x", bytemuck::cast_slice(&numbers.x))),
        ("w", filled("w", bytemuck::cast_slice(&numbers.w))),
        ("y", filled("y", bytemuck::cast_slice(&numbers.y))),
        ("partials", device.storage("partials", kernel.partials * 4)),
        ("arrivals", device.storage("arrivals", TILES as u64 * 4)),
    ];
    let [_, _, (_, y), ..] = &buffers;
    let bound = kernel.facts.bindings.iter().filter_map(|binding| {
        let (_, buffer) = buffers.iter().find(|(name, _)| *name == binding.name)?;
        Some(wgpu::BindGroupEntry { binding: binding.number, resource: buffer.as_entire_binding() })
    });
    let group = device.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.layout,
        entries: &bound.collect::<Vec<_>>(),
    });
    let bytes = numbers.y.len() as u64 * 4;
    let staging = device.staging(bytes);
    let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline.pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(kernel.workgroups as u32, 1, 1);
    }
    encoder.copy_buffer_to_buffer(y, 0, &staging, 0, bytes);
    let done = device.queue.submit([encoder.finish()]);
    staging.map_async(wgpu::MapMode::Read, 0..bytes, |_| {});
    device.wait_at_most(MOST, done, DURING)?;
    device.mapped(&staging, bytes, bytemuck::pod_collect_to_vec)
}
