//! Literal addresses in every known notation.

use windlass::ErrorKind;
use windlass_executors::outbound::{Outbound, OutboundPolicy};

use super::{get, refused};
use crate::support::{Site, text};

/// Hosts that lead to this machine or its network. All are tried with the port
/// of a server that listens, so that a mistake would be seen as a visit.
const HOSTS: &[&str] = &[
    "127.0.0.1",
    "127.0.0.2",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0X7F000001",
    "0x7f.1",
    "0x7f.0.0.1",
    "0x7f.0x0.0x0.0x1",
    "0177.0.0.1",
    "0177.1",
    "017700000001",
    "00000177.00000000.00000000.00000001",
    "127.0.0.1.",
    "127.0.0.0x1",
    "127.0x1",
    "①②⑦.⓪.⓪.①",
    "１２７.０.０.１",
    "127。0。0。1",
    "127．0．0．1",
    "127｡0｡0｡1",
    "%31%32%37.0.0.1",
    "127.0.0%2e1",
    "12\t7.0.0.1",
    "0",
    "0.0.0.0",
    "0x0",
    "00",
    "0.1",
    "10.0.0.1",
    "10.1",
    "167772161",
    "0xa000001",
    "012.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.257",
    "3232235521",
    "100.64.0.1",
    "100.127.255.255",
    "100.100.100.200",
    "169.254.169.254",
    "169.254.43518",
    "2852039166",
    "0xa9fea9fe",
    "0xA9.0xFE.0xA9.0xFE",
    "0251.0376.0251.0376",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "4294967295",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:8.8.8.8]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001::1]",
    "[2001:0:7f00:1::]",
    "[2001:db8::1]",
    "[2001:2::1]",
    "[3fff::1]",
    "[fe80::1]",
    "[fe80::a9fe:a9fe]",
    "[febf::1]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00::1]",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "[ff02::1]",
    "[100::1]",
    "[5f00::1]",
    "[4000::1]",
    "[fe80::1%25eth0]",
    "[fe80::1%eth0]",
];

/// Whole URLs that are not requested.
const URLS: &[&str] = &[
    "file:///etc/passwd",
    "ftp://example.com/",
    "gopher://127.0.0.1:6379/_PING",
    "data:text/plain,hello",
    "javascript:alert(1)",
    "unix:/var/run/docker.sock",
    "ws://example.com/",
    "dict://127.0.0.1:11211/stats",
    "http://user@example.com/",
    "http://user:hush@example.com/",
    "http://:hush@example.com/",
    "http://example.com@127.0.0.1/",
    "http://example.com%40127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1?@example.com/",
    "http://127.0.0.1\\@example.com/",
    "http:\\\\127.0.0.1\\",
    "http:127.0.0.1",
    "http:/127.0.0.1",
    "http:///127.0.0.1",
    " http://127.0.0.1",
    "\u{0}http://127.0.0.1",
    "HTTP://127.0.0.1",
    "hTtP://LOCALHOST.\u{0}/",
    "http://",
    "http://./",
    "http://example.com:0/",
    "http://example.com:99999/",
    "http://[::1",
    "http://[::1].example.com/",
    "http://1.2.3.4.5.6/",
    "http://256.256.256.256/",
    "http://0x100000000/",
    "http://exa mple.com/",
    "http://ex<ample.com/",
    "//example.com/",
    "example.com",
    "",
];

#[tokio::test]
async fn no_notation_of_an_inner_address_is_reached() {
    let site = Site::start(|_| text("inside")).await;
    let outbound = Outbound::new(OutboundPolicy::default());
    assert!(HOSTS.len() + URLS.len() > 100);
    for host in HOSTS {
        let url = format!("http://{host}:{}/?key=hush", site.port());
        let error = refused(get(&outbound, &url).await);
        let is_refusal = matches!(error.kind(), ErrorKind::Denied | ErrorKind::InvalidArguments);
        assert!(is_refusal, "{host}: {error:?}");
        assert!(!error.message().contains("hush"), "{error}");
    }
    for url in URLS {
        let error = refused(get(&outbound, url).await);
        let is_refusal = matches!(error.kind(), ErrorKind::Denied | ErrorKind::InvalidArguments);
        assert!(is_refusal, "{url}: {error:?}");
        assert!(!error.message().contains("hush"), "{error}");
    }
    assert_eq!(site.seen().len(), 0);
}

#[tokio::test]
async fn what_an_address_is_is_said() {
    let outbound = Outbound::new(OutboundPolicy::default());
    for (url, what) in [
        ("http://127.0.0.1/", "a loopback address"),
        ("https://10.0.0.1:8443/secret-path", "a private address"),
        ("http://169.254.169.254/latest/meta-data", "a link-local address"),
        ("http://[::ffff:1.1.1.1]/", "an IPv6 address with an IPv4 address inside"),
    ] {
        let error = refused(get(&outbound, url).await);
        assert!(error.message().contains(what), "{error}");
        assert!(!error.message().contains("path") && !error.message().contains("meta-data"));
    }
}
