/* Loaded before a program's own libraries: asks for the user's locale, as a host's main does. */
#include <locale.h>
#include <stdlib.h>

__attribute__((constructor)) static void ask(void) {
    if (!setlocale(LC_ALL, "")) abort(); /* the test would say nothing */
}
