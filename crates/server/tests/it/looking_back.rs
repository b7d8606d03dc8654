//! `windlass calls` and `windlass stats`.

use crate::project::Project;

fn with_calls() -> Project {
    let project = Project::new();
    project.ok(&["call", "echo", "message=one", "--conversation", "c1", "--caller", "ada"]);
    project.run(&["call", "calculator", "expression=1/0", "--conversation", "c1"]).fails(1, &[]);
    project.ok(&["call", "echo", "message=two", "--user", "bob"]);
    project
}

fn ids(project: &Project, args: &[&str]) -> Vec<String> {
    let page = project.json(&[&["calls"], args].concat());
    let records = page["records"].as_array().unwrap();
    records.iter().map(|record| record["record_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn calls_are_listed_newest_first_and_filtered() {
    let project = with_calls();
    let table = project.ok(&["calls"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("TIME ") && lines.len() == 4, "{table}");
    assert!(lines[1].contains("bob") && lines[2].contains("division by zero"), "{table}");
    assert!(lines[3].contains("ada in c1"), "{table}");
    let all = ids(&project, &[]);
    for (args, wanted) in [
        (&["--tool", "echo"][..], &[0, 2][..]),
        (&["--status", "failed"], &[1]),
        (&["--conversation", "c1"], &[1, 2]),
        (&["--caller", "ada"], &[2]),
        (&["--since", "1h"], &[0, 1, 2]),
        (&["--until", "1h"], &[]),
        (&["--since", "2100-01-01"], &[]),
        (&["--limit", "1"], &[0]),
        (&["--after", &all[0]], &[1, 2]),
    ] {
        let wanted: Vec<String> = wanted.iter().map(|at: &usize| all[*at].clone()).collect();
        assert_eq!(ids(&project, args), wanted, "{args:?}");
    }
    let page = project.run(&["calls", "--limit", "2"]);
    assert!(page.err.contains(&format!("add --after {}", all[1])), "{page:?}");
    project.run(&["calls", "--status", "fine"]).fails(2, &["succeeded, failed"]);
    project.run(&["calls", "--since", "soon"]).fails(2, &["how long ago"]);
    project.run(&["calls", "--limit", "0"]).fails(2, &["1..=1000"]);
}

#[test]
fn a_call_is_found_by_its_id_or_the_beginning_of_it() {
    let project = with_calls();
    let all = ids(&project, &[]);
    for id in [&all[1][..], &all[1][..13], &all[1].to_uppercase()[..13]] {
        let shown = project.ok(&["calls", id]);
        for part in [&all[1], "calculator failed", "\"1/0\"", "Error (tool_error)", "c1"] {
            assert!(shown.contains(part), "no {part:?} in {shown}");
        }
    }
    assert_eq!(project.json(&["calls", &all[0]])["params"]["message"], "two");
    assert_eq!(project.ok(&["calls", &all[0], "--output"]), "two");
    project.run(&["calls", &all[1], "--output"]).fails(3, &["has no result: failed"]);
    project
        .run(&["calls", "00000000-0000-7000-8000-000000000000"])
        .fails(3, &["no call with the id"]);
    project.run(&["calls", "0000000000"]).fails(3, &["no call with the id"]);
    project.run(&["calls", "nonsense"]).fails(2, &["not an id"]);
    project.run(&["calls", "--output"]).fails(2, &[]);
}

#[test]
fn a_long_error_is_cut_in_the_list_only() {
    let project = Project::new();
    let long = "x".repeat(190);
    project.run(&["call", "weekday", &format!("date={long}")]).fails(2, &[&long]);
    let table = project.ok(&["calls"]);
    let (_, error) = table.trim_end().split_once("cannot read `").unwrap();
    assert_eq!(error, format!("{}…", "x".repeat(120 - "cannot read `…".chars().count())));
    let all = ids(&project, &[]);
    assert!(project.ok(&["calls", &all[0]]).contains(&long));
    assert!(project.ok(&["calls", "--json"]).contains(&long));
}

#[test]
fn a_conversation_is_summed_up() {
    let project = with_calls();
    let summary = project.json(&["calls", "--summary", "c1"]);
    assert_eq!((&summary["total_calls"], &summary["failed_calls"]), (&2.into(), &1.into()));
    let brief = project.json(&["calls", "--summary", "c1", "--brief"]);
    assert_eq!((&brief["has_errors"], brief.get("failed_calls")), (&true.into(), None));
    let text = project.ok(&["calls", "--summary", "c1"]);
    assert!(text.contains("2 calls: 1 succeeded, 1 did not (50.0 % success)"), "{text}");
    assert!(project.run(&["calls", "--summary", "none"]).err.contains("`none`"));
}

#[test]
fn statistics_are_by_tool() {
    let project = with_calls();
    let table = project.ok(&["stats"]);
    let total = table.lines().last().unwrap();
    assert!(total.starts_with("total") && total.contains("2 succeeded, 1 failed"), "{table}");
    let json = project.json(&["stats", "echo"]);
    assert_eq!(
        (&json["total"]["calls"], &json["tools"]["echo"]["success_rate"]),
        (&2.into(), &100.0.into())
    );
    assert_eq!(json["tools"].as_object().unwrap().len(), 1);
}

#[test]
fn looking_creates_nothing() {
    let project = Project::new();
    for args in [&["calls"][..], &["stats"], &["tools"], &["calls", "--summary", "c"]] {
        assert_eq!(project.run(args).code, Some(0), "{args:?}");
    }
    assert!(!project.path(".windlass").exists());
    assert!(project.run(&["calls"]).err.contains("no such calls are recorded"));
    assert_eq!(project.json(&["calls"])["records"], serde_json::json!([]));
}
