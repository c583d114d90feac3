// A C++ program of somebody else: the public headers as C++17, and every public symbol by its C name.
#include <sereno/sereno.h>

#include <cstdio>
#include <cstring>
#include <thread>

using any_function = void (*)();

static const any_function functions[] = {
#include "symbols.inc" // what the shared library exports, each cast and with a comma
};

int main() {
    for (any_function f : functions) {
        if (!f) return 1;
    }
    if (std::strcmp(sereno_version(), SERENO_VERSION) != 0) return 1;
    sereno_error err{};
    sereno_model *model;
    if (sereno_model_open("/dev/null", &model, &err) != SERENO_ERR_IO) return 1;
    sereno_cancel cancel{};
    sereno_request request{};
    request.cancel = &cancel;
    std::thread([&] { sereno_cancel_request(&cancel); }).join();
    if (!sereno_cancel_requested(request.cancel)) return 1;
    std::printf("as it should be: %zu functions, %s\n", sizeof functions / sizeof *functions, err.message);
    return 0;
}
