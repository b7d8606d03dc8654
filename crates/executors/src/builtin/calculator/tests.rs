use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The result as text, or the error after `error: `.
fn answer(expression: &str) -> String {
    let arguments = json!({"expression": expression});
    match run(&Arguments::new(&arguments)) {
        Ok(output) => output.to_text(),
        Err(error) => format!("error: {}", error.message()),
    }
}

#[track_caller]
fn check(table: &[(&str, &str)]) {
    for (expression, expected) in table {
        assert_eq!(answer(expression), *expected, "{expression}");
    }
}

#[test]
fn arithmetic_is_exact() {
    check(&[
        ("1 + 2 * 3", "7"),
        ("0.1 + 0.2", "0.3"),
        ("2^200", "1606938044258990275541962092341162602522202993782792835301376"),
        ("2**-3", "0.125"),
        ("-2^2", "-4"),
        ("(-2)^2", "4"),
        ("2^3^2", "512"),
        ("10 - 4 - 3", "3"),
        ("7 % 3", "1"),
        ("-7 % 3", "2"),
        ("7.5 % 2", "1.5"),
        ("7 // 2", "3"),
        ("-7 // 2", "-4"),
        ("1_000 × 3 ÷ 2 − 1", "1499"),
        ("1/3 * 3", "1"),
        ("5! / 3!", "20"),
        ("--5", "5"),
        ("+5", "5"),
        ("1e3 + 2.5E-1", "1000.25"),
        ("0xff + 0b11", "258"),
        (".5 + 5.", "5.5"),
        ("4^0.5", "2"),
        ("8^(2/3)", "4"),
        ("0^0", "1"),
        ("1.05^10", "1.62889462677744140625"),
        ("-0.5", "-0.5"),
        ("10^-200", "1e-200"),
        ("3 - 3.0", "0"),
        ("（1＋2）×3", "9"),
        ("1.005 * 1000", "1005"),
    ]);
}

#[test]
fn functions_are_exact_where_they_can_be() {
    check(&[
        ("sqrt(144)", "12"),
        ("sqrt(0.25)", "0.5"),
        ("SQRT(2)", "1.4142135623731 (approximate)"),
        ("sqrt(2)^2", "2 (approximate)"),
        ("cbrt(-27)", "-3"),
        ("root(1024, 10)", "2"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(3.14159, 2)", "3.14"),
        ("round(1234, -2)", "1200"),
        ("floor(-1.5)", "-2"),
        ("ceil(1.2)", "2"),
        ("trunc(-1.7)", "-1"),
        ("abs(-3/4)", "0.75"),
        ("sign(-3)", "-1"),
        ("min(3, 1, 2)", "1"),
        ("max(1/3, 0.3)", "0.33333333333333333333 (rounded; exactly 1/3)"),
        ("avg(1, 2, 3, 4)", "2.5"),
        ("sum(0.1, 0.2, 0.3)", "0.6"),
        ("gcd(12, 18, 30)", "6"),
        ("lcm(4, 6)", "12"),
        ("comb(5, 2)", "10"),
        ("perm(5, 2)", "20"),
        ("log(1000)", "3"),
        ("log2(1024)", "10"),
        ("log(0.01)", "-2"),
        ("log(81, 3)", "4"),
        ("log10(10^5000)", "5000"),
        ("ln(1)", "0"),
        ("ln(e)", "1 (approximate)"),
        ("exp(0)", "1"),
        ("sin(pi)", "0 (approximate)"),
        ("cos(0)", "1"),
        ("sin(radians(30))", "0.5 (approximate)"),
        ("hypot(3, 4)", "5"),
        ("pow(2, 10) + mod(7, 4)", "1027"),
        ("2 * pi", "6.28318530717959 (approximate)"),
    ]);
}

#[test]
fn what_does_not_end_is_rounded_and_says_so() {
    check(&[
        ("1/3", "0.33333333333333333333 (rounded; exactly 1/3)"),
        ("-2/3", "-0.66666666666666666667 (rounded; exactly -2/3)"),
        ("100/7", "14.285714285714285714 (rounded; exactly 100/7)"),
        (
            "1/3/10^30",
            "3.3333333333333333333e-31 (rounded; exactly 1/3000000000000000000000000000000)",
        ),
    ]);
    let arguments = json!({"expression": "1/3"});
    let output = run(&Arguments::new(&arguments)).unwrap();
    let expected = json!({
        "expression": "1/3", "result": 0.3333333333333333, "exact": false, "fraction": "1/3",
    });
    assert_eq!(output.value(), Some(&expected));
}

#[test]
fn the_result_is_a_json_number_where_no_digit_is_lost() {
    for (expression, expected) in [
        ("0.1 + 0.2", json!(0.3)),
        ("6 * 7", json!(42)),
        ("2^63", json!("9223372036854775808")),
        ("1.05^10", json!("1.62889462677744140625")),
    ] {
        assert_eq!(calculate(expression).unwrap().value, expected, "{expression}");
    }
}

#[test]
fn errors_say_what_and_where() {
    check(&[
        ("", "error: expected a number, a function or `(`, found the end (at character 1)"),
        ("1 +", "error: expected a number, a function or `(`, found the end (at character 4)"),
        ("1 2", "error: expected an operator or the end, found a number (at character 3)"),
        ("2x", "error: expected an operator after the number, found 'x' (at character 2)"),
        ("1.2.3", "error: expected an operator after the number, found '.' (at character 4)"),
        (
            "(1 + 2",
            "error: expected an operator or `)` for the `(` at character 1, found the end (at character 7)",
        ),
        ("1)", "error: this `)` closes nothing (at character 2)"),
        (
            "1,000",
            "error: a `,` stands only between the arguments of a function; write 1000 or 1_000 (at character 2)",
        ),
        (
            "200 + 5%",
            "error: `%` is the remainder, as in `7 % 3`; write a percentage as a fraction: 5/100 (at character 8)",
        ),
        ("1 / 0", "error: division by zero (at character 3)"),
        ("1 % 0", "error: division by zero (at character 3)"),
        ("0^-1", "error: division by zero (at character 2)"),
        ("sqrt(-1)", "error: an even root of a negative number is not real (at character 1)"),
        ("ln(0)", "error: a logarithm needs a positive number (at character 1)"),
        ("tan(pi/2)", "error: not defined at this angle (at character 1)"),
        ("sqrt 4", "error: expected `(` after `sqrt`, found a number (at character 6)"),
        ("sqrt(1, 2)", "error: `sqrt` takes 1 arguments, found 2 (at character 1)"),
        ("2.5!", "error: a factorial needs a whole number of at least 0 (at character 4)"),
        ("1 = 1", "error: an `=` is not understood; give only an expression (at character 3)"),
        ("1 # 2", "error: unexpected character '#' (at character 3)"),
    ]);
    assert!(answer("foo(1)").starts_with("error: `foo` is not known; functions: sqrt, "));
}

#[test]
fn huge_expressions_are_refused_quickly() {
    let start = Instant::now();
    let repeated = |part: &str, count: usize| part.repeat(count);
    let refused = [
        "9^9^9^9".to_owned(),
        "10^10000 * 10^10000".to_owned(),
        "5000!".to_owned(),
        "1e999999999".to_owned(),
        "1e99999999999999999999".to_owned(),
        repeated("(", 10_000),
        format!("{}1{}", repeated("(", 4_000), repeated(")", 4_000)),
        format!("{}1", repeated("-", 9_000)),
        format!("2{}", repeated("^1", 4_900)),
        repeated("sqrt(", 1_900),
        format!("9^9000{}", repeated("*1+9^9000", 1_000)),
        "comb(4000000000, 2000000000)".to_owned(),
        "x".repeat(20_000),
    ];
    for expression in &refused {
        assert!(
            answer(expression).starts_with("error: "),
            "{}",
            &expression[..20.min(expression.len())]
        );
    }
    // Long, but harmless: one level of operators needs no depth.
    let sum = format!("0{}", repeated("+1", 4_900));
    assert_eq!(answer(&sum), "4900");
    let harmonic: Vec<String> = (1..1_000).map(|n| format!("1/{n}")).collect();
    let sum = answer(&harmonic.join("+"));
    assert!(sum.starts_with("7.48447086055") && sum.ends_with(" (approximate)"), "{sum}");
    assert!(start.elapsed() < Duration::from_secs(5), "took {:?}", start.elapsed());
}

proptest! {
    #[test]
    fn any_text_gets_an_answer(expression in "[-0-9.e_+*/%^!(),a-z ×÷π√]{0,60}") {
        answer(&expression);
    }

    #[test]
    fn any_unicode_gets_an_answer(expression in ".{0,40}") {
        answer(&expression);
    }

    #[test]
    fn likely_text_gets_an_answer(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "1", "0", "2.5", "10", "1e9", "(", ")", "+", "-", "*", "/", "%", "^", "!", ",",
                "sqrt(", "log(", "min(", "round(", "comb(", "gcd(", "pi", "tan(", "//", "cbrt(",
            ]),
            0..24,
        ),
    ) {
        answer(&parts.concat());
    }

    #[test]
    fn integers_agree_with_i128(first in -1000_i128..1000, rest in prop::collection::vec(
        (prop::sample::select(vec!['+', '-', '*']), -1000_i128..1000), 0..10,
    )) {
        let mut expression = first.to_string();
        // A sum of products, as precedence has it.
        let (mut sum, mut product) = (0_i128, first);
        for (operator, number) in rest {
            expression.push_str(&format!(" {operator} {number}"));
            match operator {
                '*' => product *= number,
                sign => {
                    sum += product;
                    product = if sign == '-' { -number } else { number };
                }
            }
        }
        prop_assert_eq!(answer(&expression), (sum + product).to_string());
    }
}
