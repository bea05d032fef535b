/* consumer - somebody else's ten lines: finds the headers, links the library, agrees on the version. */
#include <stdio.h>
#include <string.h>

#include <crema/crema_error.h>
#include <crema/crema_version.h>

int
main(int argc, char **argv)
{
    puts(crema_err_text(CREMA_OK));
    return argc == 2 && strcmp(argv[1], CREMA_VERSION) == 0 ? 0 : 1;
}
