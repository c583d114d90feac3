// Governor and sensing in a C++ engine that calls back after each operation, as llama.cpp does (its eval callback).
// c++ -std=c++17 govern_yours.cpp $(pkg-config --cflags --libs sereno-governor)
#include <sereno/meter.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

static uint64_t now_ns() {
    using namespace std::chrono;
    return static_cast<uint64_t>(duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

// The engine: some operations a token, a callback after each.
struct engine {
    static constexpr int operations = 4;
    std::vector<uint64_t> weights = std::vector<uint64_t>(1 << 18);
    volatile uint64_t sum = 0;

    void decode(const std::function<void(int operation)> &after) {
        for (int i = 0; i < operations; i++) {
            sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
            after(i);
        }
    }
};

// What is put in between: the callback returns when the engine may go on.
class governed {
  public:
    explicit governed(int n_units) {
        sereno_error err{};
        const std::vector<sereno_work_unit> units(static_cast<size_t>(n_units), sereno_work_unit{true, 0, 0});
        const sereno_governor_params params = sereno_governor_defaults(SERENO_POLICY_UI_FIRST);
        const sereno_throughput_profile throughput{200, 0.2};
        if (sereno_meter_open(units.data(), n_units, &meter, &err) ||
            sereno_governor_open(&params, &throughput, &g, &err))
            throw std::runtime_error(err.message);
        tell(SERENO_EVENT_BEGIN, 0);
    }
    ~governed() {
        sereno_governor_close(&g);
        sereno_meter_close(&meter);
    }
    governed(const governed &) = delete;
    governed &operator=(const governed &) = delete;

    void begin_operation() {
        started = now_ns();
    }

    void after(int operation) {
        sereno_event e{};
        e.kind = SERENO_EVENT_SUBGRAPH;
        e.now_ns = now_ns();
        e.subgraph.plan = SERENO_PLAN_VERIFY;
        e.subgraph.batch = 1;
        e.subgraph.wall_ns = e.now_ns - started;
        if (d.sleep_us == 0) e.signals = sereno_meter_read(meter, operation, 1, e.subgraph.wall_ns, e.now_ns);
        for (sereno_governor_step(g, &e, &d); d.sleep_us > 0; sereno_governor_step(g, &e, &d)) {
            std::this_thread::sleep_for(std::chrono::microseconds(d.sleep_us));
            e.now_ns = now_ns();
            e.subgraph.slept_ns += uint64_t{d.sleep_us} * 1000;
            e.signals = sereno_signals{};
        }
        begin_operation();
    }

    void tell(sereno_event_kind kind, int32_t tokens) {
        sereno_event e{};
        e.kind = kind;
        e.now_ns = now_ns();
        if (kind == SERENO_EVENT_TOKENS) e.tokens = tokens;
        sereno_governor_step(g, &e, &d);
    }

    sereno_decision d = sereno_decision_default();

  private:
    sereno_meter *meter = nullptr;
    sereno_governor *g = nullptr;
    uint64_t started = 0;
};

int main() {
    engine e;
    governed run(engine::operations);
    for (int token = 0; token < 100; token++) {
        run.begin_operation();
        e.decode([&run](int operation) { run.after(operation); });
        run.tell(SERENO_EVENT_TOKENS, 1);
    }
    std::printf("100 tokens; at the end: %s, score %.2f\n", sereno_mode_name(run.d.mode),
                static_cast<double>(run.d.score));
}
