//! The endpoint is scraped over a real socket and its text compared with the counters.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hopeval_operators::OperatorCounters;

use super::*;

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Head and body of the answer to a GET.
fn fetch(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn a_scrape_reads_the_counters_of_that_moment() {
    let counters = Arc::new(OperatorCounters::default());
    let server = MetricsServer::serve(any(), of_run(&counters)).unwrap();
    counters.admitted.store(7405, Ordering::Relaxed);
    counters.finished.store(7000, Ordering::Relaxed);
    let (head, body) = fetch(server.address(), "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("text/plain; version=0.0.4"), "{head}");
    let want = "# HELP hopeval_questions_admitted_total Questions admitted to the dataflow.\n\
                # TYPE hopeval_questions_admitted_total counter\n\
                hopeval_questions_admitted_total 7405\n";
    assert!(body.contains(want), "{body}");
    assert!(body.contains("# TYPE hopeval_questions_in_flight gauge\nhopeval_questions_in_flight 405\n"), "{body}");
    let version = env!("CARGO_PKG_VERSION");
    assert!(body.contains(&format!("hopeval_build_info{{version=\"{version}\"}} 1\n")), "{body}");
    counters.finished.store(7405, Ordering::Relaxed);
    assert!(fetch(server.address(), "/metrics").1.contains("hopeval_questions_in_flight 0\n"));
}

#[test]
fn a_family_differs_in_its_labels() {
    let queue = |service: &str, value: f64| {
        Metric::gauge("hopeval_queue_requests", "Requests that wait.", move || value).label("service", service)
    };
    let server = MetricsServer::serve(any(), vec![queue("reader", 3.0), queue("a \"b\"", 0.5)]).unwrap();
    let (_, body) = fetch(server.address(), "/metrics");
    assert_eq!(body.matches("# TYPE hopeval_queue_requests gauge\n").count(), 1);
    assert!(body.contains("hopeval_queue_requests{service=\"reader\"} 3\n"), "{body}");
    assert!(body.contains("hopeval_queue_requests{service=\"a \\\"b\\\"\"} 0.5\n"), "{body}");
}

#[test]
fn a_histogram_has_buckets_sum_and_count() {
    let reading = HistogramReading { buckets: vec![(0.1, 2), (1.0, 5)], count: 6, sum: 4.5 };
    let times = Metric::histogram("hopeval_times_seconds", "Times.", move || reading.clone()).label("run", "a");
    let (_, body) = {
        let server = MetricsServer::serve(any(), vec![times]).unwrap();
        fetch(server.address(), "/metrics")
    };
    let want = "# TYPE hopeval_times_seconds histogram\n\
                hopeval_times_seconds_bucket{run=\"a\",le=\"0.1\"} 2\n\
                hopeval_times_seconds_bucket{run=\"a\",le=\"1\"} 5\n\
                hopeval_times_seconds_bucket{run=\"a\",le=\"+Inf\"} 6\n\
                hopeval_times_seconds_sum{run=\"a\"} 4.5\n\
                hopeval_times_seconds_count{run=\"a\"} 6\n";
    assert!(body.contains(want), "{body}");
}

#[test]
fn health_and_unknown_paths() {
    let server = MetricsServer::serve(any(), Vec::new()).unwrap();
    assert_eq!(fetch(server.address(), "/healthz").1, "ok\n");
    assert!(fetch(server.address(), "/other").0.starts_with("HTTP/1.1 404"));
}

#[test]
fn an_address_in_use_is_a_typed_error_until_the_server_stops() {
    let server = MetricsServer::serve(any(), Vec::new()).unwrap();
    let address = server.address();
    match MetricsServer::serve(address, Vec::new()) {
        Err(MetricsError::Bind { address: said, source }) => {
            assert_eq!((said, source.kind()), (address, io::ErrorKind::AddrInUse));
        }
        other => panic!("{other:?}"),
    }
    drop(server);
    MetricsServer::serve(address, Vec::new()).unwrap();
}

#[test]
fn malformed_metrics_are_refused() {
    let refused = |metrics| match MetricsServer::serve(any(), metrics) {
        Err(MetricsError::Malformed { name, .. }) => name,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(vec![Metric::gauge("two words", "x", || 0.0)]), "two words");
    assert_eq!(refused(vec![Metric::counter("hopeval_questions", "x", || 0.0)]), "hopeval_questions");
    let twice = || Metric::gauge("hopeval_twice", "x", || 0.0);
    assert_eq!(refused(vec![twice(), twice()]), "hopeval_twice");
}
