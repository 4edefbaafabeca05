//! Whether matrix units compute right with kernels as this program translates them. Adapters list them, and that is all they say: a
//! driver may refuse the patched modules (`pipelines/spirv`), or take them and compute something else. So a small kernel that uses
//! the same code as products runs once on numbers of which every sum is known; what it gives is kept on disk.

use crate::pipelines::{Pipeline, Store, Verdict, compile_once};
use crate::timeline::Track;
use crate::{Device, RuntimeError};
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
pub(super) type Run<'a> = dyn Fn(&Device, Feature, &Kernel) -> Result<Verdict, RuntimeError> + 'a;

/// The checks of a device with these limits.
pub(super) fn checks(limits: &Limits) -> Vec<Check> {
    let asked = CHECKED.into_iter().filter(|feature| limits.features.contains(feature));
    // The kernels of the binary: it is the driver that is checked, not a folder.
    asked.filter_map(|f| Some((f, matrix_check::kernel(f, limits, &Catalogue::embedded())?))).collect()
}

/// Removes the features of a device that do not stand their check. Whether the device was lost over it.
pub(super) fn settle(device: &mut Device, checks: Vec<Check>, kept: Option<&Store>, run: &Run<'_>) -> bool {
    let mut is_lost = false;
    for (feature, kernel) in checks {
        let why = match kernel.map(|kernel| verdict(device, feature, &kernel, kept, run)) {
            Ok(Ok(Verdict::Right)) => continue,
            Ok(Ok(Verdict::Wrong(why))) => why,
            Ok(Err(error)) => {
                is_lost |= matches!(error, RuntimeError::DeviceLost { .. } | RuntimeError::TimedOut { .. });
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
    run: &Run<'_>,
) -> Result<Verdict, RuntimeError> {
    if let Some(known) = kept.and_then(|store| Verdict::from_bytes(&store.load(&kernel.hash)?)) {
        return Ok(known);
    }
    let _span = device.timeline().span(Track::Device, "check matrix units");
    let verdict = run(device, feature, kernel)?;
    if let Some(store) = kept {
        store.save(&kernel.hash, &verdict.to_bytes());
    }
    Ok(verdict)
}

/// Compiles and runs a check. A refusal or other numbers are a verdict; a device that runs out of memory, hangs or is lost may do
/// better the next time.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceOptions;
    use crate::opening::FoundAdapter;
    use std::cell::RefCell;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    /// The matrix units that the adapter lists; with `WGOOSE_MATRICES=1` (`cargo xtask test --matrices`) there must be
    /// some.
    fn listed() -> Vec<Feature> {
        let adapter = crate::adapters().remove(0);
        let listed = CHECKED.into_iter().filter(|feature| adapter.limits.features.contains(feature));
        let listed: Vec<Feature> = listed.collect();
        if listed.is_empty() {
            let name = adapter.fingerprint.adapter;
            assert!(std::env::var_os("WGOOSE_MATRICES").is_none(), "{name} lists no matrix units");
            println!("skipped: {name} lists no matrix units");
        }
        listed
    }

    /// A device that lists units of 16 x 16, whatever it has, and the checks that were run: all say `outcome`.
    fn open(cache: Option<&Path>, outcome: &dyn Fn() -> Result<Verdict, RuntimeError>) -> (Arc<Device>, Vec<Feature>) {
        let options = DeviceOptions { cache: cache.map(Path::to_owned), ..DeviceOptions::default() };
        let claim = |limits: &mut Limits| {
            limits.features.remove(&Feature::CooperativeMatrix8);
            limits.features.extend([Feature::Subgroups, Feature::F16, Feature::CooperativeMatrix]);
        };
        let ran = RefCell::new(Vec::new());
        let run = |_: &Device, feature: Feature, _: &Kernel| {
            ran.borrow_mut().push(feature);
            outcome()
        };
        let device = FoundAdapter::find_limited(&options, &claim).unwrap().open_checked(&run).unwrap();
        (device, ran.into_inner())
    }

    const HAS: Feature = Feature::CooperativeMatrix;

    fn wrong() -> Result<Verdict, RuntimeError> {
        Ok(Verdict::Wrong("of a test".to_owned()))
    }

    fn right() -> Result<Verdict, RuntimeError> {
        Ok(Verdict::Right)
    }

    fn failed() -> Result<Verdict, RuntimeError> {
        Err(RuntimeError::OutOfMemory { during: DURING.to_owned() })
    }

    fn lost() -> Result<Verdict, RuntimeError> {
        Err(RuntimeError::DeviceLost { during: DURING.to_owned(), why: "of a test".to_owned() })
    }

    /// The files below a folder.
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn matrix_units_that_fail_their_check_are_dropped() {
        let opened = |outcome: &dyn Fn() -> _| {
            let (device, ran) = open(None, outcome);
            assert_eq!(ran, [HAS]);
            device.check(DURING).unwrap();
            device.limits().clone()
        };
        let with = opened(&right);
        assert!(with.has_matrix_units());
        let mut without = with;
        without.features.remove(&HAS);
        assert_eq!(opened(&wrong), without);
        assert_eq!(opened(&failed), without);
        assert_eq!(opened(&lost), without, "opened once more");
    }

    #[test]
    fn a_verdict_is_kept_and_a_failure_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let has = |cache: &Path, outcome: &dyn Fn() -> _| {
            let (device, ran) = open(Some(cache), outcome);
            (device.limits().has_matrix_units(), ran.len())
        };
        let cache = folder.path();
        assert_eq!(has(cache, &failed), (false, 1));
        assert_eq!(has(cache, &lost), (false, 1));
        assert_eq!(has(cache, &right), (true, 1), "nothing was kept");
        assert_eq!(has(cache, &wrong), (true, 0), "it was right");
        let kept = files(cache);
        let [file] = kept.as_slice() else { panic!("{kept:?}") };
        let good = fs::read(file).unwrap();
        for damaged in [good[..good.len() - 1].to_vec(), [&good[..good.len() - 1], b"T"].concat(), Vec::new()] {
            fs::write(file, damaged).unwrap();
            assert_eq!(has(cache, &wrong), (false, 1), "what is damaged says nothing");
            assert_eq!(has(cache, &right), (false, 0), "it was wrong");
        }
        // Whole, and no verdict.
        let adapter = crate::adapters().remove(0).fingerprint;
        let (device, _) = open(None, &right);
        let kernel = matrix_check::kernel(HAS, device.limits(), &Catalogue::embedded()).unwrap().unwrap();
        let store = Store::checks(cache, &adapter);
        assert!(store.load(&kernel.hash).is_some(), "that is where it lies");
        store.save(&kernel.hash, b"maybe");
        assert_eq!(has(cache, &right), (true, 1));
        let mut other = adapter;
        other.driver.push('!');
        assert_eq!(Store::checks(cache, &other).load(&kernel.hash), None, "another driver is asked anew");
        assert_eq!(has(&file.join("below"), &right), (true, 1), "a folder that cannot be made");
    }

    #[test]
    fn units_that_are_listed_compute_right() {
        let device = Device::open(None).unwrap();
        for feature in listed() {
            let kernel = matrix_check::kernel(feature, device.limits(), &Catalogue::embedded()).unwrap().unwrap();
            assert_eq!(run(&device, feature, &kernel).unwrap(), Verdict::Right, "{feature}");
            assert!(device.limits().features.contains(&feature));
        }
    }

    const CHECK: (&str, &str) =
        ("device/checks/matrices.wgsl", include_str!("../../../../kernels-wgsl/device/checks/matrices.wgsl"));
    const BITS: (&str, &str) = ("lib/coop/bits.wgsl", include_str!("../../../../kernels-wgsl/lib/coop/bits.wgsl"));
    const PARTIALS: (&str, &str) =
        ("lib/coop/partials.wgsl", include_str!("../../../../kernels-wgsl/lib/coop/partials.wgsl"));
    const M16: (&str, &str) =
        ("lib/coop/fragment/m16.wgsl", include_str!("../../../../kernels-wgsl/lib/coop/fragment/m16.wgsl"));

    /// A check with one file of its code edited.
    fn edited(feature: Feature, limits: &Limits, (path, text): (&str, &str), edits: &[(&str, &str)]) -> Kernel {
        let mut text = text.to_owned();
        for (old, new) in edits {
            assert!(text.contains(old), "{path}: {old}");
            text = text.replace(old, new);
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        let catalogue = Catalogue::with_folder(folder.path()).unwrap();
        matrix_check::kernel(feature, limits, &catalogue).unwrap().unwrap()
    }

    #[test]
    fn units_that_compute_otherwise_are_seen() {
        let faults = [
            (CHECK, "coopMultiplyAdd(tokens, rows, sums)", "sums"),
            (CHECK, "k_tile < K_TILES", "k_tile + 1u < K_TILES"),
            (BITS, "1024.0h + zero", "1023.0h + zero"),
            (PARTIALS, "coopStoreT(sums", "coopStore(sums"),
        ];
        let device = Device::open(None).unwrap();
        for feature in listed() {
            for (file, good, bad) in faults {
                let kernel = edited(feature, device.limits(), file, &[(good, bad)]);
                let verdict = run(&device, feature, &kernel).unwrap();
                assert!(matches!(verdict, Verdict::Wrong(_)), "{feature}: {bad}");
                device.check(DURING).unwrap();
            }
        }
    }

    /// The driver gets patched modules, here for units of 8 x 8, which a software adapter has.
    #[test]
    fn patched_modules_compute_right() {
        let device = Device::open(None).unwrap();
        let (small, large) = (Feature::CooperativeMatrix8, Feature::CooperativeMatrix);
        if !listed().contains(&small) || !device.is_cpu() {
            return;
        }
        let mut limits = device.limits().clone();
        limits.features.insert(large);
        let edits = [
            ("f16 cooperative-matrix", "f16 cooperative-matrix cooperative-matrix-8x8"),
            ("coop_mat16x16", "coop_mat8x8"),
            ("FRAGMENT: u32 = 16u", "FRAGMENT: u32 = 8u"),
            ("tile_w_as_f32[at], 4u", "tile_w_as_f32[at], 2u"),
        ];
        let mut kernel = edited(large, &limits, M16, &edits);
        // Those of 16 x 16 are patched.
        kernel.facts.features.insert(large);
        let numbers = matrix_check::numbers(small).unwrap();
        let pipeline = compile_once(&device, &kernel).unwrap();
        let got = compute(&device, &kernel, &pipeline, &numbers).unwrap();
        assert_eq!(compared(&got, &numbers.want), Verdict::Right);
    }
}
