use super::*;

fn row(system: System, role: Role, median: f64) -> Row {
    let figures = vec![Some(Spread::single(median))];
    Row { system, label: None, role, figures, problem: None }
}

fn section() -> Section {
    let absent = Row {
        figures: vec![None],
        problem: Some("absent: no oneTBB headers".to_owned()),
        ..row(System::Tbb, Role::Peer, 0.0)
    };
    let rows = vec![
        Row {
            figures: vec![Some(Spread { median: 200.0, min: 150.0, max: 2500.0 })],
            ..row(System::Cmwq, Role::Ours, 0.0)
        },
        row(System::Rayon, Role::Peer, 400.0),
        row(System::Crossbeam, Role::Peer, f64::INFINITY),
        absent,
        row(System::Go, Role::Reference, 1.0),
    ];
    let ours = Side::of(&rows, System::Cmwq, 0);
    let ratio = Ratio::new("cmwq / best peer", Unit::Time, ours, best_peer(&rows, 0)).goal(0.25);
    Section {
        curves: Vec::new(),
        name: "roundtrip".to_owned(),
        title: "a title".to_owned(),
        columns: vec![Column::new("p50", Unit::Time)],
        rows,
        ratios: ratio.into_iter().collect(),
        notes: vec!["a remark".to_owned()],
    }
}

#[test]
fn times_are_shown_in_their_own_scale() {
    for (ns, shown) in [
        (58.2, "58.2 ns"),
        (4.0, "4.00 ns"),
        (2_410.0, "2.41 µs"),
        (205e6, "205.0 ms"),
        (1.2163e9, "1.22 s"),
        (f64::INFINITY, "never"),
    ] {
        assert_eq!(Unit::Time.show(ns), shown);
    }
}

#[test]
fn a_spread_uses_the_unit_of_its_median() {
    let spread = Spread { median: 210.3e6, min: 209.9e6, max: 1.2e9 };
    assert_eq!(Unit::Time.show_spread(spread), "210.3 ms (209.9–1200.0)");
    assert_eq!(Unit::Count.show_spread(Spread { median: 4.0, min: 3.0, max: 5.0 }), "4 (3–5)");
    assert_eq!(Unit::Plain.show_spread(Spread::single(1.0256)), "1.026");
    let sometimes = Spread { median: 9.0, min: 8.0, max: f64::INFINITY };
    assert_eq!(Unit::Time.show_spread(sometimes), "9.00 ns (8.00–never)");
}

#[test]
fn the_best_peer_is_neither_us_nor_a_reference_nor_one_that_never_got_there() {
    let best = best_peer(&section().rows, 0).unwrap();
    assert_eq!((best.name.as_str(), best.value), ("rayon", 400.0));
}

#[test]
fn text_shows_both_sides_of_a_ratio_and_why_a_row_is_empty() {
    let text = section().text();
    for expected in [
        "200.0 ns (150.0–2500.0)",
        "never",
        "go (reference)",
        "tbb: absent: no oneTBB headers",
        "cmwq / best peer: cmwq 200.0 ns / rayon 400.0 ns = 0.50 (goal: at most 0.25, missed)",
        "note: a remark",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing in:\n{text}");
    }
}

#[test]
fn a_ratio_beside_its_goal_tells_on_which_side_it_is() {
    let line = |ours: f64| {
        let one = Some(Side::named("one", 1.0));
        Ratio::new("x", Unit::Plain, Some(Side::named("ours", ours)), one)
            .goal(1.03)
            .unwrap()
            .line()
    };
    assert!(line(1.0332).ends_with("= 1.033 (goal: at most 1.03, missed)"), "{}", line(1.0332));
    assert!(line(1.0271).ends_with("= 1.027 (goal: at most 1.03, met)"), "{}", line(1.0271));
    assert!(line(1.0811).ends_with("= 1.08 (goal: at most 1.03, missed)"), "{}", line(1.0811));
}

#[test]
fn a_verdict_that_a_round_contradicts_is_not_decided() {
    let line = |theirs: &[f64]| {
        let side = |name, value| Some(Side::named(name, value));
        Ratio::new("x", Unit::Plain, side("ours", 1.04), side("one", 1.0))
            .rounds(&[1.0, 1.04, 1.05], theirs)
            .goal(1.03)
            .unwrap()
            .line()
    };
    let undecided = line(&[1.0, 1.0, 1.0]);
    assert!(undecided.ends_with("missed, but not decided: rounds 1.000–1.050)"), "{undecided}");
    // Round by round: the slow ones of one may be those of the other.
    let missed = line(&[0.95, 1.0, 1.0]);
    assert!(missed.ends_with("missed; rounds 1.040–1.053)"), "{missed}");
    let not_paired = line(&[1.0, 1.0]);
    assert!(not_paired.ends_with("missed)"), "{not_paired}");
}

#[test]
fn a_constant_is_compared_with_each_round() {
    let rows = section().rows;
    let ours = || Side::of(&rows, System::Cmwq, 0);
    let line = |what: Option<Ratio>| what.unwrap().line();
    let least = Some(Side::named("most", 1000.0));
    let said = line(Ratio::new("x", Unit::Time, ours(), least).goal(1.0));
    assert!(said.ends_with("met, but not decided: rounds 0.150–2.500)"), "{said}");
    let wanted = Some(Side::named("wanted", 150.0));
    let said = line(Ratio::new("x", Unit::Time, wanted, ours()).goal(1.0));
    assert!(said.ends_with("met; rounds 0.060–1.000)"), "{said}");
}

#[test]
fn a_ratio_with_one_side_is_none() {
    let rows = section().rows;
    let absent = || Side::of(&rows, System::Tbb, 0);
    assert!(absent().is_none());
    let never = || Side::of(&rows, System::Crossbeam, 0);
    let one = || Some(Side::named("one", 1.0));
    let divided = Ratio::new("x", Unit::Time, one(), never()).value();
    assert!(divided.is_none(), "never is no number to divide by");
    let missed = Ratio::new("x", Unit::Time, never(), one()).goal(2.0).unwrap().line();
    assert!(missed.contains("never") && missed.contains("missed"), "{missed}");
    let one_sided = Ratio::new("x", Unit::Time, one(), absent());
    assert!(one_sided.value().is_none());
}

#[test]
fn json_says_the_same_as_the_table() {
    let value = serde_json::to_value(section()).unwrap();
    assert_eq!(value["units"]["p50"], "ns");
    assert_eq!(value["rows"][0]["figures"]["p50"]["median"], 200.0);
    assert_eq!(value["rows"][0]["role"], "ours");
    assert_eq!(value["rows"][2]["figures"]["p50"]["median"], Value::Null, "never");
    assert_eq!(value["rows"][3]["problem"], "absent: no oneTBB headers");
    assert_eq!(value["ratios"][0]["ratio"], 0.5);
    assert_eq!(value["ratios"][0]["theirs"]["name"], "rayon");
}
