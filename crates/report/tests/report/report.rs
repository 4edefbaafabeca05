//! Reports of ledgers that were recorded, and of one that was not written by a friend.

use std::path::PathBuf;
use wgoose_measure::derive::{DeriveError, Policy};
use wgoose_measure::ledger::{self, Cause, Ledger, Outcome, Record, Records};
use wgoose_measure::objective::Objective;
use wgoose_plans::catalogue;
use wgoose_report::{LedgerReport, Source, page};
use wgoose_sim::{recorded, shipped};

fn gather(records: &Records) -> LedgerReport {
    LedgerReport::gather(records, &catalogue::embedded(), &Objective::chat(false), &Policy::all(), None)
}

fn html(report: &LedgerReport, name: &str) -> String {
    let html = page(report, &[Source { name: name.to_owned(), notices: vec!["line 3 is skipped".to_owned()] }]);
    check(&html);
    html
}

/// That elements end where they must, and that nothing is fetched or run.
#[track_caller]
fn check(html: &str) {
    let body = &html[html.find("</style>").unwrap()..];
    let mut open: Vec<&str> = vec!["html", "head", "style"];
    for piece in body.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag that does not end");
        assert!(!text.contains('>') || text.starts_with('\n'), "{text}");
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
        assert!(!["script", "img", "link", "iframe", "object", "form"].contains(&name), "{tag}");
        assert!(!tag.contains(" on") && !tag.contains("src=") && !tag.contains("http"), "{tag}");
        match tag {
            tag if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "{tag}"),
            tag if tag.ends_with('/') => {}
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for (at, svg) in body.match_indices("<svg ") {
        let drawn = &body[at..at + body[at..].find("</svg>").unwrap()];
        assert!(drawn.contains("<title>") && drawn.contains("<desc>"), "{svg}");
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
    let is_shown = |c: char| !c.is_control() || c == '\n';
    assert!(html.chars().all(is_shown));
}

#[test]
fn a_recorded_sweep_is_told_whole() {
    // A plan is derived of kernels that are those that were measured.
    let ledger = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans/nvidia-h100-80gb-hbm3/32x2560-q4_k_m.jsonl.zst");
    let of_shipped = gather(&ledger::read(ledger.as_ref()).unwrap().0);
    let derived = of_shipped.derived.as_ref().unwrap();
    assert_eq!(derived.gains.len(), 5);
    assert!((derived.gains.iter().map(|gain| gain.share).sum::<f64>() - 1.0).abs() < 1e-12);
    let decode = &derived.gains[0].result;
    assert!(decode.comparison.interval.low > 0.69 && decode.comparison.log_ratio.exp() < 2.1);
    let page = html(&of_shipped, "shipped.jsonl");
    assert!(page.contains("×2.0"));
    // The course ends in the gain that table and chart of the plan have.
    for gain in &derived.gains {
        let own = of_shipped.course.progress.iter().find(|own| own.scenario == gain.scenario).unwrap();
        assert_eq!(own.best.last().unwrap().1, gain.result.comparison.log_ratio.exp(), "{}", gain.scenario);
    }
    // Kernels are counted as the table of jobs counts them.
    let jobs = of_shipped.searched.iter().find(|searched| searched.kind == "kernel").unwrap().jobs;
    let measured: usize = of_shipped.sites.iter().map(|site| site.points.len()).sum();
    let failed: usize = of_shipped.sites.iter().map(|site| site.failed).sum();
    let sites = of_shipped.sites.len();
    let counts = page.split(" of kernels alone at ").nth(1).unwrap().split("</p>").next().unwrap();
    assert!(counts.starts_with(&format!("{sites} sites: ")), "{counts}");
    assert!(measured + failed <= jobs && counts.ends_with(" measured again."), "{counts}");
    let numbers = counts.replace(',', "");
    let numbers: Vec<usize> = numbers.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] == sites && numbers[1..].iter().sum::<usize>() == jobs, "{counts}");

    // Those of an older sweep were edited since: what it measured is told all the same.
    let report = gather(&recorded());
    assert!(report.derived.as_ref().unwrap().gains.is_empty());

    // The head: the default, what the plan takes, and what bounds both.
    let head = report.sites.iter().find(|site| site.name.starts_with("matmul 2560 to 65536")).unwrap();
    assert_eq!(head.points.len(), 90);
    assert!(head.points.windows(2).all(|pair| pair[0].ns.median <= pair[1].ns.median));
    let default = &head.points[head.default.as_ref().unwrap().1.unwrap()];
    assert_eq!(default.label(), "gemv_subgroup ROWS=2 STAGED=0 THREADS_PER_ROW=32 UNROLL=1 WG=64");
    let fastest = &head.points[0];
    assert!(fastest.ns.median < default.ns.median / 1.9 && fastest.variant == "gemv_fixed_grid_k");
    let (least, bytes) = (head.least_ns.unwrap(), head.bytes.unwrap());
    // 2,560 x 65,536 weights of 6.5625 bits, which take at least as long as the best kernel anywhere takes for as much.
    assert!((bytes / (2560.0 * 65536.0 * 6.5625 / 8.0) - 1.0).abs() < 0.01 && least <= head.points[0].ns.median);
    let map = head.heat.as_ref().unwrap();
    assert_eq!((map.variant.as_str(), map.cells.len()), ("gemv_fixed_grid_k", map.rows.1.len()));
    let [all, refused] = head.configurations.unwrap();
    assert!(all == 9116 && refused < all);
    assert!(
        report.sites.iter().all(|site| site
            .points
            .first()
            .zip(site.least_ns)
            .is_none_or(|(p, l)| l <= 1.0001 * p.ns.median))
    );

    let course = &report.course;
    assert!(course.spent > 200.0 && course.spent <= 300.0 && course.budget == Some(300.0) && course.control.len() == 2);
    let decode = &course.progress[0];
    assert!(decode.attempts.len() > 60 && decode.best.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    assert!((decode.best.last().unwrap().1 - 2.03).abs() < 0.01, "{:?}", decode.best);
    assert_eq!((report.failures.len(), report.failures[0].cause), (1, Some(Cause::NotResident)));
    assert!(!report.failures[0].is_kept && !report.decisions.is_empty() && report.left_out.refusals.len() > 20);

    let html = html(&report, "a b's.jsonl");
    for part in ["#sites", "constraint", "not resident", " % of the roofline", "line 3 is skipped"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(html.contains("wgoose plans derive &#39;a b&#39;\\&#39;&#39;s.jsonl&#39; --out plan.ron"));
    assert!(html.len() < 400_000, "{} bytes", html.len());
}

#[test]
fn an_empty_ledger_and_two_at_once_have_a_report() {
    let nothing = gather(&Records::default());
    assert!(nothing.subject.is_none() && matches!(nothing.derived, Err(DeriveError::NoSession)));
    let page = html(&nothing, "none.jsonl");
    assert!(page.contains("No kernel was timed alone") && page.contains("No plan can be derived"));

    // Of two, the newest sweep is told.
    let both = Records::merged([shipped("24x2048-f16.jsonl.zst"), shipped("32x2560-f16.jsonl.zst")]);
    let (report, shape) = (gather(&both), both.newest_session().unwrap().shape);
    assert_eq!(report.subject.as_ref().unwrap().shape, Some((shape.layers, shape.width)));
    assert!(report.others > 0 && html(&report, "both.jsonl").contains("of other devices or models left out"));
}

#[test]
fn a_hostile_ledger_becomes_plain_text() {
    let hostile = "</svg></style><script>alert(1)</script>\u{1b}[2J\0\u{202e}\"'&".to_owned() + &"x".repeat(100_000);
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("hostile.jsonl");
    let mut written = Ledger::open(&path).unwrap();
    let device = |device: &mut wgoose_kernels::DeviceFingerprint| {
        device.adapter.clone_from(&hostile);
        device.driver.clone_from(&hostile);
    };
    let mut session = String::new();
    for entry in recorded().as_slice().iter().step_by(3).chain(
        // The sweep and its plans, whatever is left out.
        recorded().as_slice().iter().filter(|entry| entry.record.trial().is_none()).take(40),
    ) {
        let mut record = entry.record.clone();
        match &mut record {
            Record::Trial(trial) => {
                device(&mut trial.identity.device);
                trial.session = Some(session.clone());
                let text = serde_json::to_string(&trial.identity).unwrap();
                let quoted = serde_json::to_string(&hostile[..200]).unwrap();
                let text = text.replace("\"gemv_fixed_grid_k\"", &quoted).replace("\"WG\"", &quoted);
                trial.identity = serde_json::from_str(&text).unwrap();
                match &mut trial.outcome {
                    Outcome::Kernel(timing) => timing.samples_ns[0] = 1e300,
                    Outcome::Control(timing) => timing.samples_ns.fill(1e-300),
                    Outcome::Failed(reason) => reason.text.clone_from(&hostile),
                    _ => {}
                }
            }
            Record::Plan(plan) => device(&mut plan.plan.device),
            Record::Session(begun) => {
                device(&mut begun.device);
                begun.version.clone_from(&hostile);
                begun.at = -1e300;
                begun.budget = 1e300;
            }
            Record::Refused(refused) => {
                device(&mut refused.device);
                refused.variant.clone_from(&hostile);
                refused.reason.text.clone_from(&hostile);
            }
            Record::Decision(decision) => {
                decision.session.clone_from(&session);
                decision.stage.clone_from(&hostile);
                decision.text.clone_from(&hostile);
                decision.at = 1e300;
            }
            Record::Alike(alike) => {
                alike.session.clone_from(&session);
                alike.at = 1e300;
            }
            // No sweep has one.
            Record::Experiment(_) => {}
        }
        let is_session = matches!(record, Record::Session(_));
        let id = written.append(record).unwrap().id.clone();
        if is_session {
            session = id;
        }
    }
    let (records, notices) = ledger::read(&path).unwrap();
    assert!(notices.is_empty());
    let report = gather(&records);
    assert!(report.sites.len() > 5 && !report.decisions.is_empty() && !report.left_out.refusals.is_empty());
    let html = html(&report, &hostile);
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
}
