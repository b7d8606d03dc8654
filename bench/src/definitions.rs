//! Loading many definitions, and looking up tools among them.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use windlass::{Engine, Kind};

use crate::report::{Figure, medians, timed};

const MANY: usize = 10_000;
const FEW: usize = 10;
const LOOKUPS: usize = 200_000;
const SECONDS: f64 = 2.0;

/// Measures loading and lookups.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let (many_dir, few_dir) = (folder.path().join("many"), folder.path().join("few"));
    write(&many_dir, MANY)?;
    write(&few_dir, FEW)?;
    let start = Instant::now();
    let many = load(&many_dir, MANY)?;
    let took = start.elapsed().as_secs_f64();
    let few = load(&few_dir, FEW)?;
    // Both registries are asked for the same names in the same order.
    let names: Vec<String> = (0..FEW).map(name).collect();
    let look_up = |engine: &Engine| {
        timed(|| {
            for at in 0..LOOKUPS {
                black_box(engine.registry().get(black_box(&names[at % FEW])));
            }
        })
    };
    let [few, many] = medians(15, [&mut || look_up(&few), &mut || look_up(&many)])
        .map(|seconds| seconds * 1e9 / LOOKUPS as f64);
    Ok(vec![
        Figure::new("load 10,000 YAML tools / 2 s", "s", took, SECONDS).at_most(1.0),
        Figure::new("lookup, 10,000 tools / 10 tools", "ns", many, few).at_most(1.1),
    ])
}

fn load(folder: &Path, count: usize) -> anyhow::Result<Engine> {
    let builtins = windlass_executors::builtin::Builtins::default();
    let engine = Engine::builder().kind(Kind::Builtin, move |spec| builtins.bind(spec)).build()?;
    let report = engine.load_folder(folder);
    anyhow::ensure!(report.tools == count, "{} tools, {:?}", report.tools, report.errors.first());
    Ok(engine)
}

/// The name of a tool.
pub(crate) fn name(at: usize) -> String {
    format!("tool_{at}")
}

/// Writes a file for each tool.
pub(crate) fn write(folder: &Path, count: usize) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    for at in 0..count {
        let yaml = format!(
            "name: {}
version: \"1.0.0\"
description: Looks up entry number {at} in the catalogue.
category: custom
tags: [catalogue, look-up]
parameters:
  - name: query
    type: string
    required: true
    description: What to look for
    validation: {{min_length: 1, max_length: 200}}
  - name: limit
    type: integer
    required: false
    default: 10
    description: How many at the most
    validation: {{min: 1, max: 100}}
  - name: order
    type: string
    required: false
    default: name
    description: What to sort by
    validation: {{enum: [name, date, size]}}
entry: {{type: builtin, handler: echo}}
",
            name(at)
        );
        std::fs::write(folder.join(format!("{at}.yaml")), yaml)?;
    }
    Ok(())
}
